// Tasks of the browser, which should be short.

/** Ends a task, so that the page can react before the next step of long work. */
export const nextTask = (): Promise<void> => new Promise((done) => setTimeout(done));
