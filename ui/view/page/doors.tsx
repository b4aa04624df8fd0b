// The links to the views. Narrow pages have them at the bottom, the less frequent ones in a menu.
import type { ComponentType } from "preact";
import { useRef } from "preact/hooks";
import { place } from "../../data/route.ts";
import { Icon, type IconName } from "../../part/icon.tsx";
import { ActiveCount } from "./active.tsx";
import { UnseenCount } from "./unseen.tsx";

interface Door {
  to: string;
  place: string;
  /** Further places that belong to the view. */
  also?: string[];
  label: string;
  icon: IconName;
  /** In the menu of narrow pages. */
  rare?: boolean;
  Count?: ComponentType;
}

const doors: Door[] = [
  { to: "#/", place: "", also: ["pair", "agent"], label: "Overview", icon: "overview" },
  { to: "#/topology", place: "topology", label: "Topology", icon: "topology" },
  { to: "#/traffic", place: "traffic", label: "Traffic", icon: "traffic", rare: true },
  { to: "#/levels", place: "levels", label: "Service levels", icon: "level", rare: true },
  { to: "#/sessions", place: "sessions", label: "Sessions", icon: "sessions" },
  { to: "#/experiments", place: "experiments", label: "Experiments", icon: "experiment", rare: true },
  { to: "#/alarms", place: "alarms", label: "Alarms", icon: "warning", Count: ActiveCount },
  { to: "#/events", place: "events", label: "Events", icon: "events", Count: UnseenCount },
];
const rare = doors.filter((d) => d.rare);

const here = (d: Door): boolean => d.place === place.value || Boolean(d.also?.includes(place.value));

/** Doors links to all views. */
export function Doors() {
  return (
    <nav class="doors" aria-label="Views">
      {doors.map((d) => <Link key={d.to} door={d} />)}
      <More />
    </nav>
  );
}

function Link({ door: d, onClick }: { door: Door; onClick?: () => void }) {
  return <a href={d.to} class={d.rare ? "rare" : undefined} aria-current={here(d) ? "page" : undefined} onClick={onClick}><Icon name={d.icon} /><span>{d.label}</span>{d.Count && <d.Count />}</a>;
}

/** More opens the menu of narrow pages; the browser closes it on Escape and on a click elsewhere. */
function More() {
  const menu = useRef<HTMLDivElement>(null);
  return (
    <>
      <button type="button" class="doors-more" popovertarget="doors-menu" aria-current={rare.some(here) ? "true" : undefined}><Icon name="more" /><span>More</span></button>
      <div id="doors-menu" class="doors-menu" popover="auto" ref={menu}>{rare.map((d) => <Link key={d.to} door={d} onClick={() => menu.current?.hidePopover()} />)}</div>
    </>
  );
}
