import { defineConfig } from "vitest/config";

// Without hashes in their names the files of two builds can be compared. The server
// sends an ETag with each, so that browsers never use an outdated one.
export default defineConfig({
  build: {
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: true,
    rollupOptions: {
      output: {
        entryFileNames: "[name].js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
      },
    },
  },
  // `npm run dev` reloads on changes and uses the API of a server on this machine.
  server: {
    proxy: { "^/(pillion\\.v1\\.|export|service-levels|healthz|metrics|licenses\\.txt|openapi\\.json)": process.env.PILLION_API ?? "http://localhost:8470" },
  },
  test: {
    include: ["{data,chart,part,report,view}/**/*.test.{ts,tsx}"],
    environment: "happy-dom",
    // A DOM for each file took most of the time.
    pool: "threads",
    isolate: false,
    testTimeout: 60_000, // a busy machine is no fault
  },
});
