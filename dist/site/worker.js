// Browsers start no workers for pages that they read from a folder. There the theme's worker,
// which searches, runs in a hidden frame; IFrameWorker tells it so.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.scope = frame.contentWindow
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = frame.contentDocument.createElement("script")
          Object.assign(script, { src: source, onload: resolve, onerror: reject })
          frame.contentDocument.body.append(script)
        })
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.scope.importScripts = (...sources) => sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve())
      this.loaded = load(new URL(url, location))
    }

    postMessage(data) {
      this.loaded.then(() => this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data })))
    }
  }
}
