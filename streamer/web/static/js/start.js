// The views are fetched at once, but run after the first frame, which they would delay.
const start = () => import("./main.js");
if (document.hidden || !PerformanceObserver.supportedEntryTypes.includes("paint")) start();
else new PerformanceObserver(start).observe({ type: "paint", buffered: true });
