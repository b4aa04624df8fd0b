// Tests in a real browser against a real server with agents in a lab. They need root
// and what `make test-page` builds; two files run at once, each with a lab of its own. Files
// called *.long.test.ts, with simulated agents, a fleet or a slow link, belong to `make test-long`.
import { configDefaults, defineConfig } from "vitest/config";
import { patience } from "./command.ts";

export default defineConfig({
  cacheDir: "../node_modules/.vite-test", // beside the other caches
  test: {
    root: import.meta.dirname,
    include: ["*.test.ts"],
    exclude: process.env.LONG ? configDefaults.exclude : [...configDefaults.exclude, "*.long.test.ts"],
    environment: "node",
    pool: "forks",
    fileParallelism: true,
    maxWorkers: 2,
    expect: { poll: { timeout: patience } },
    testTimeout: 4 * patience, // of several waits
    hookTimeout: 4 * patience,
    teardownTimeout: patience,
  },
});
