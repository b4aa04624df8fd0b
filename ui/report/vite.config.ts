import { defineConfig } from "vite";

// One script and one style sheet, which package report puts into a file of its own.
export default defineConfig({
  publicDir: false,
  build: {
    target: "es2022",
    outDir: "report/dist",
    lib: { entry: "report/main.tsx", formats: ["iife"], name: "report", fileName: () => "router.js", cssFileName: "router" },
  },
});
