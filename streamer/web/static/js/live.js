// Follows a stream of updates for ever: the browser resumes by Last-Event-ID; where it gives up, we open anew.

const REOPEN_MS = 1500;

export class Live {
  // handlers: reset(), remove(gone), told(), state(word), refused(error): the server does not stream,
  //           view(): what the server draws, drawn(parts): by table
  constructor(path, handlers) {
    this.path = path;
    this.handlers = handlers;
    this.lastId = "";
    this.timer = 0;
    this.open();
  }

  open() {
    const query = new URLSearchParams({ ...this.handlers.view?.(), ...(this.lastId ? { last_event_id: this.lastId } : {}) });
    const source = new EventSource(query.size ? `${this.path}?${query}` : this.path);
    this.source = source;
    const on = (event, act) =>
      source.addEventListener(event, (message) => {
        if (message.lastEventId) this.lastId = message.lastEventId;
        act(message.data ? JSON.parse(message.data) : null);
      });
    on("snapshot", () => this.handlers.reset());
    on("deleted", (gone) => this.handlers.remove(gone));
    on("drawn", (parts) => this.handlers.drawn(parts));
    on("told", () => {
      this.handlers.state("live");
      this.handlers.told();
    });
    source.addEventListener("error", () => {
      this.handlers.state("lost");
      if (source.readyState !== EventSource.CLOSED) return;
      this.timer = setTimeout(() => this.open(), REOPEN_MS);
      this.handlers.refused?.();
    });
  }

  // The view is another one: all of it is asked for.
  again() {
    this.close();
    this.lastId = "";
    this.open();
  }

  close() {
    clearTimeout(this.timer);
    this.source.close();
  }
}
