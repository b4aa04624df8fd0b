// The frame of every view: navigation, the signed-in token, and the state of the server.
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { limited, may, signOut, token, who } from "../data/account.ts";
import { serverClient } from "../data/client.ts";
import { outage } from "../data/link.ts";
import { place, route } from "../data/route.ts";
import { clock } from "../data/quantity.ts";
import { Icon } from "../part/icon.tsx";
import { Notice } from "../part/notice.tsx";
import { ThemeButton } from "../part/theme.tsx";
import { useTitle } from "../part/title.ts";
import { AboutView, LicencesView } from "./about.tsx";
import { AgentView } from "./agent.tsx";
import { AlarmsView } from "./alarms.tsx";
import { EventsView } from "./events.tsx";
import { ExperimentsView } from "./experiments.tsx";
import { LevelsView } from "./levels.tsx";
import { OverviewView } from "./overview.tsx";
import { Doors } from "./page/doors.tsx";
import { Failing } from "./page/failing.tsx";
import { PairView } from "./pair.tsx";
import { SessionsView } from "./sessions.tsx";
import { SignInView } from "./sign-in.tsx";
import { TokensView } from "./tokens.tsx";
import { TopologyView } from "./topology.tsx";
import { TrafficView } from "./traffic.tsx";

const retryMs = 2000;

const views: Record<string, ComponentType> = {
  "": OverviewView,
  pair: PairView,
  agent: AgentView,
  topology: TopologyView,
  traffic: TrafficView,
  levels: LevelsView,
  sessions: SessionsView,
  experiments: ExperimentsView,
  alarms: AlarmsView,
  events: EventsView,
  tokens: TokensView,
  about: AboutView,
  licences: LicencesView,
};

/** Views that need no token. */
const open = new Set(["about", "licences"]);

/** Page shows the view in the address, or the sign-in form. */
export function Page() {
  useEffect(() => {
    if (token.value) void identify();
  }, [token.value]);
  if (!token.value && !open.has(place.value)) return <SignInView />;
  const View = views[place.value];
  return (
    <div class="page">
      <a class="skip" href="#main" onClick={skip}>Skip to content</a>
      <header class="top">
        <a class="brand" href="#/"><img src="/icon.svg" alt="" width="24" height="24" />Pillion</a>
        {token.value && <Doors />}
        <div class="top-end">
          <a class="button quiet icon-only" href="#/about" aria-label="About" title="About: version, health, licences" aria-current={open.has(place.value) ? "page" : undefined}><Icon name="info" /></a>
          <ThemeButton />
          <Who />
          {token.value ? <button class="quiet" type="button" onClick={() => signOut()}>Sign out</button> : <a class="button" href="#/">Sign in</a>}
        </div>
      </header>
      <Silence />
      <Failing />
      <main id="main" tabIndex={-1}>
        <Safe key={route.value.words.join("/")}>
          {View ? <View /> : <Lost />}
        </Safe>
      </main>
      <footer class="bottom row">{limited.value && <span class="soft">Limited view: the token {who.value?.name} sees only <b>{who.value?.scope.join(", ")}</b>.</span>}<a href="#/about">About</a><a href="#/licences">Licences</a><a href="/licenses.txt" download>Licences as text</a></footer>
    </div>
  );
}

function Lost() {
  useTitle("Page not found");
  return <Notice title="Page not found" action={<a class="button" href="#/">Go to the overview</a>}>There is no page at this address.</Notice>;
}

/** The signed-in token; for admins a link to all tokens. */
function Who() {
  const me = who.value;
  if (!me) return null;
  const words = <><span>{me.name}</span><small>{me.role}{limited.value && ", limited"}</small></>;
  const title = `Token ${me.name}, role ${me.role}${limited.value ? `; sees only ${me.scope.join(", ")}` : ""}`;
  if (!may("admin")) return <span class="who" title={title}>{words}</span>;
  return <a class="who" href="#/tokens" title={`${title}; all tokens`} aria-current={place.value === "tokens" ? "page" : undefined}>{words}</a>;
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

async function identify(): Promise<void> {
  try {
    const me = await serverClient.whoAmI({});
    who.value = { name: me.name, role: me.role as "viewer", scope: me.scope };
  } catch {
    // An unknown token signs out. An unreachable server shows the banner and is retried.
    if (token.peek()) setTimeout(() => void identify(), retryMs);
  }
}

function Silence() {
  const s = outage.value;
  if (!s) return null;
  return <p class="banner" role="alert">No answer from the server since {clock(s.since)}. The data shown may be out of date. Retrying.</p>;
}

/** Safe shows the error of a view instead of an empty page. */
class Safe extends Component<{ children: ComponentChildren }, { fault?: Error }> {
  override state: { fault?: Error } = {};
  static override getDerivedStateFromError(fault: Error) {
    return { fault };
  }
  override render() {
    if (!this.state.fault) return this.props.children;
    return (
      <Notice title="This view crashed" level="error" action={<button type="button" onClick={() => location.reload()}>Reload the page</button>}>
        {this.state.fault.message}
      </Notice>
    );
  }
}
