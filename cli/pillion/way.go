package pillion

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
	"pillion.dev/session"
)

// way is what the server and two agents say about the network between them.
type way struct {
	ends        [2]end
	there, back direction
}

// end is one of the two agents.
type end struct {
	name      string
	connected bool
	checks    []*pillionv1.Check // none: it is not connected
}

// direction is one direction of a way.
type direction struct {
	from, to string
	// reasons are the server's, about both agents, too.
	reasons []*pillionv1.Reason
	paths   []*pillionv1.Path
	// untraced is why there are no paths.
	untraced error
}

const (
	// measureTime bounds a measurement by this program. Traces, which are marked as other packets are,
	// make sure that there is something to measure.
	measureTime  = time.Minute
	measureTrace = 5 * time.Second
	// endTime is for what remains of it.
	endTime = 10 * time.Second
)

// gatherWay asks for all that is known about a way, in parallel: checks of hosts and traces take seconds.
func gatherWay(ctx context.Context, client *api.Client, first, second string) (*way, error) {
	w := &way{there: direction{from: first, to: second}, back: direction{from: second, to: first}}
	for i, name := range []string{first, second} {
		answer, err := client.Agents.GetAgent(ctx, &pillionv1.GetAgentRequest{Name: name})
		if err != nil {
			return nil, failed("get agent "+name, err)
		}
		w.ends[i] = end{name: name, connected: answer.Agent.State == stateConnected}
	}
	var failures [4]error
	var asking sync.WaitGroup
	for i := range w.ends {
		asking.Go(func() {
			if e := &w.ends[i]; e.connected {
				e.checks, failures[i] = checkAgent(ctx, client, e.name, []string{w.ends[1-i].name})
			}
		})
	}
	for i, d := range []*direction{&w.there, &w.back} {
		asking.Go(func() {
			if w.ends[i].connected {
				answer, err := client.Topology.Trace(ctx, &pillionv1.TraceRequest{Source: d.from, Destination: d.to})
				d.paths, d.untraced = answer.GetPaths(), failed("trace", err)
			}
			failures[2+i] = d.explain(ctx, client, "")
		})
	}
	asking.Wait()
	return w, cmp.Or(failures[0], failures[1], failures[2], failures[3])
}

// explain asks why a session, or any, measures the direction or not.
func (d *direction) explain(ctx context.Context, client *api.Client, name string) error {
	answer, err := client.Sessions.ExplainPair(ctx, &pillionv1.ExplainPairRequest{Source: d.from, Destination: d.to, Session: name})
	d.reasons = answer.GetReasons()
	return failed("explain "+d.from+" > "+d.to, err)
}

// has reports whether there is a reason of that name with one of these levels.
func (d *direction) has(name string, levels ...string) bool {
	return slices.ContainsFunc(d.reasons, func(r *pillionv1.Reason) bool { return r.Name == name && slices.Contains(levels, r.Level) })
}

// measure runs a session for the directions that none measures, until packets have arrived in each of
// them, but not longer than a time.
func (w *way) measure(ctx context.Context, client *api.Client, most time.Duration) error {
	var directions []*direction
	for _, d := range []*direction{&w.there, &w.back} {
		if !d.has(session.CheckMarks, levelOK, levelWarning, levelError) && !d.has(session.CheckSession, levelError) {
			directions = append(directions, d)
		}
	}
	if len(directions) == 0 || !w.ends[0].connected || !w.ends[1].connected {
		return nil
	}
	name, began := "doctor-"+strings.ToLower(rand.Text()[:10]), time.Now()
	_, err := client.Sessions.CreateSession(ctx, &pillionv1.CreateSessionRequest{Spec: &pillionv1.SessionSpec{
		Name: name, Sources: []string{directions[0].from}, Destinations: []string{directions[0].to}, Both: len(directions) == 2,
		Trace: durationpb.New(measureTrace), Duration: durationpb.New(most + endTime),
	}})
	if err != nil {
		return failed("create session "+name, err)
	}
	defer endMeasurement(context.WithoutCancel(ctx), client, name)
	for {
		arrived := true
		for _, d := range directions {
			if err := d.explain(ctx, client, name); err != nil {
				return err
			}
			arrived = arrived && d.has(session.CheckMarks, levelOK)
		}
		if arrived || time.Since(began) >= most {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// endMeasurement stops and deletes a session of this program. Its end is scheduled, too, so that an error
// leaves nothing that lasts.
func endMeasurement(ctx context.Context, client *api.Client, name string) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	_, _ = client.Sessions.StopSession(ctx, &pillionv1.StopSessionRequest{Name: name})
	for ctx.Err() == nil {
		if _, err := client.Sessions.DeleteSession(ctx, &pillionv1.DeleteSessionRequest{Name: name}); err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// findings are, in this order: both ends with the checks of their hosts, their clocks, and both directions with routes and paths.
func (w *way) findings() []finding {
	var all []finding
	both := w.there.at(min(w.there.from, w.there.to) + " and " + max(w.there.from, w.there.to))
	for i := range w.ends {
		all = append(all, w.there.at(w.ends[i].name)...)
		all = append(all, w.ends[i].host(w.ends[1-i].name, slices.Concat(w.there.reasons, w.back.reasons))...)
	}
	all = append(all, both...)
	for i, d := range []*direction{&w.there, &w.back} {
		where := d.from + " > " + d.to
		all = append(all, w.ends[i].route(where, d.to)...)
		all = append(all, d.at(where)...)
		all = append(all, d.traced(where)...)
	}
	return all
}

// at are the reasons about an end, both ends or the direction.
func (d *direction) at(where string) (found []finding) {
	for _, r := range d.reasons {
		if r.Where == where {
			found = append(found, finding{where, &pillionv1.Check{Name: r.Name, Level: r.Level, Found: r.Found, Advice: r.Advice}})
		}
	}
	return found
}

// host counts the checks of a host that are ok, except for the checks of the route to the peer, and repeats the
// others unless the reasons already say the same.
func (e *end) host(peer string, reasons []*pillionv1.Reason) (found []finding) {
	passed := 0
	for _, k := range e.checks {
		switch {
		case strings.HasPrefix(k.Name, routeCheck(peer)):
		case k.Level == levelOK:
			passed++
		case !slices.ContainsFunc(reasons, func(r *pillionv1.Reason) bool { return r.Agent == e.name && strings.HasSuffix(r.Found, k.Found) }):
			found = append(found, finding{e.name, k})
		}
	}
	if passed > 0 {
		sum := &pillionv1.Check{Name: "host", Level: levelOK, Found: quantity.Count(passed, "check") + " passed"}
		found = slices.Insert(found, 0, finding{e.name, sum})
	}
	return found
}

// routeCheck begins the names of an agent's checks of the route to a peer.
func routeCheck(peer string) string { return "peer " + peer }

// route repeats the checks of the route to the other end.
func (e *end) route(where, peer string) (found []finding) {
	for _, k := range e.checks {
		if address, is := strings.CutPrefix(k.Name, routeCheck(peer)); is {
			name := strings.TrimSpace("route " + strings.TrimSpace(address))
			found = append(found, finding{where, &pillionv1.Check{Name: name, Level: k.Level, Found: k.Found, Advice: k.Advice}})
		}
	}
	return found
}

// traced are the traced paths.
func (d *direction) traced(where string) (found []finding) {
	again := "pillion topology trace " + d.from + " " + d.to
	if d.untraced != nil {
		found = append(found, finding{where, &pillionv1.Check{Name: "path", Level: levelWarning, Found: d.untraced.Error(), Advice: again}})
	}
	for _, p := range d.paths {
		var hops []string
		for _, h := range p.Hops {
			hops = append(hops, cmp.Or(h.Address, "*"))
		}
		k := &pillionv1.Check{Name: "path " + p.Address, Level: levelOK, Found: fmt.Sprintf("%s: %s", quantity.Count(len(hops), "hop"), strings.Join(hops, ", "))}
		if n := len(hops); n > 0 && p.Reached {
			k.Found += ", RTT " + quantity.FormatNanos(p.Hops[n-1].RttNs)
		}
		if !p.Reached {
			k.Level, k.Found = levelWarning, "not traced to the end, "+k.Found
			k.Advice = "permit UDP ports from 33434 and ICMP time exceeded, or trace with --protocol icmp: " + again
		}
		found = append(found, finding{where, k})
	}
	return found
}
