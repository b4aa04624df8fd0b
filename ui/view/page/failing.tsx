// Failures of the server, above every view.
import { health } from "../../data/health.ts";
import { outage } from "../../data/link.ts";
import { useResource } from "../../data/resource.ts";
import { route } from "../../data/route.ts";

/** Failing lists the failing parts of the server; nothing while all work. */
export function Failing() {
  const state = useResource(health).value.value;
  const parts = state?.parts.filter((p) => !p.ok) ?? [];
  if (!state || state.status === "ok" || outage.value) return null;
  const words = parts.map((p) => `${p.name}: ${p.detail || "failing"}`).join("; ");
  return (
    <p class="banner" role="alert">
      The server is failing{words && ` (${words})`}. Agents keep their data until it recovers.
      {route.value.words[0] !== "about" && <> <a href="#/about">Details</a></>}
    </p>
  );
}
