// What is wrong with the server, above every view.
import { health } from "../../data/health.ts";
import { silence } from "../../data/link.ts";
import { useResource } from "../../data/resource.ts";
import { route } from "../../data/route.ts";

/** Failing shows the parts of the server that do not work; nothing while all do. */
export function Failing() {
  const state = useResource(health).value.value;
  const parts = state?.parts.filter((p) => !p.ok) ?? [];
  if (!state || state.status === "ok" || silence.value) return null;
  const words = parts.map((p) => `${p.name}: ${p.detail || "it does not work"}`).join("; ");
  return (
    <p class="banner" role="alert">
      The server is failing{words && ` (${words})`}. What agents measure waits with them until it works again.
      {route.value.words[0] !== "events" && <> <a href="#/events">More</a></>}
    </p>
  );
}
