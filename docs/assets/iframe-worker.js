// A page that was opened from the disk may start no Worker, and the search is one. Here it lives in
// a hidden frame instead, and says and hears the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => Promise.all(urls.map((each) => this.bring(each)));
      this.ready = this.bring(url);
    }

    bring(url) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        script.onerror = failed;
        this.inside.document.body.append(script);
      });
    }

    postMessage(data) {
      const hear = () => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
      this.ready.then(hear);
    }
  };
}
