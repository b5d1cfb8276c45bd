// Asking the API; what goes wrong becomes a Refused with a sentence for people.

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const get = async (...asked) => (await answer(...asked)).json();

// The same answer, drawn by the server: elements for `made`.
export const drawn = async (path, parameters, signal) => (await answer(path, parameters, signal, "application/vnd.streamer.drawn+json")).json();

async function answer(path, parameters = {}, signal = undefined, accept = "application/json") {
  const given = Object.entries(parameters).flatMap(([name, value]) => [value].flat().map((one) => [name, one])).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  const answered = await fetch(query ? `${path}?${query}` : path, { signal, headers: { accept } });
  if (answered.ok) return answered;
  const problem = await answered.json().catch(() => null);
  throw new Refused(answered.status, problem?.detail ?? `The server answered ${answered.status}`);
}

export const runPath = (run, rest = "") => `/api/runs/${encodeURIComponent(run)}${rest}`;

// The page of a task over all runs of the benchmark that this run belongs to.
export const taskPage = (run, task) => `/pages/tasks/${encodeURIComponent(task)}?${new URLSearchParams({ run })}`;

// A token for a cookie; true if it fits.
export async function signIn(token) {
  const answer = await fetch("/api/session", { headers: { authorization: `Bearer ${token}` } });
  return answer.ok;
}
