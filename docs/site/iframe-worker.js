// Workers for pages that no server serves. A browser starts no worker from a file, so that the search of the
// theme would stay empty; here the script of a worker runs in a hidden frame instead. The theme's script looks
// for `IFrameWorker` in the parent of its frame.
class IFrameWorker extends EventTarget {
  constructor(address) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.title = "Search";
    document.body.append(frame);
    const inner = frame.contentWindow;
    inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    const script = inner.document.createElement("script");
    script.src = address;
    this.started = new Promise((resolve, reject) => {
      script.onload = () => resolve(inner);
      script.onerror = () => reject(new Error(`the worker ${address} did not load`));
    });
    inner.document.body.append(script);
  }

  /** Gives the worker `data`, once its script has run. */
  async postMessage(data) {
    const inner = await this.started;
    inner.dispatchEvent(new inner.MessageEvent("message", { data }));
  }
}

if (location.protocol === "file:") {
  globalThis.IFrameWorker = IFrameWorker;
  globalThis.Worker = IFrameWorker;
}
