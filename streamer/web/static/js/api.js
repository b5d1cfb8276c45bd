// Asking the API; what goes wrong becomes a Refused with a sentence for people.

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  const answer = await fetch(query ? `${path}?${query}` : path, { signal, headers: { accept: "application/json" } });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => null);
  throw new Refused(answer.status, problem?.detail ?? `The server answered ${answer.status}`);
}

export const runPath = (run, rest = "") => `/api/runs/${encodeURIComponent(run)}${rest}`;

// A token for a cookie; true if it fits.
export async function signIn(token) {
  const answer = await fetch("/api/session", { headers: { authorization: `Bearer ${token}` } });
  return answer.ok;
}
