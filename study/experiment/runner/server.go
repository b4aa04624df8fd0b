package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/session"
)

const (
	// sessionTimeout is how long a session may take to start or to stop.
	sessionTimeout = 60 * time.Second
	// rowsTimeout is how long the last rows of a session may take to the archive.
	rowsTimeout = 15 * time.Second
	pollPause   = 50 * time.Millisecond
)

// onServer reports whether a server carries out sessions between two hosts: the lab's server, or the user's if both
// hosts have agents.
func (r *runner) onServer(source, destination string) bool {
	if r.lab != nil {
		return r.lab.Spec.Service != nil
	}
	return r.spec.Hosts[source].Agent != "" && r.spec.Hosts[destination].Agent != ""
}

// errNoForward: the runner cannot reach the lab's server.
var errNoForward = errors.New("connect to the lab's server: the lab's service needs forward, a port of this machine")

// client returns a client of the server that carries out sessions.
func (r *runner) client() (*api.Client, error) {
	server := ""
	if r.lab != nil {
		if server = strings.TrimPrefix(r.lab.ServiceURL(), "http://"); server == "" {
			return nil, errNoForward
		}
	}
	if r.Dial == nil {
		return nil, errors.New("connect to a server: none is selected")
	}
	return r.Dial(server)
}

// agentOf is the name of a host's agent; in a lab, it is the name of the host.
func (r *runner) agentOf(host string) string {
	if agent := r.spec.Hosts[host].Agent; agent != "" {
		return agent
	}
	return host
}

// startOnServer creates a session of its own for the run and waits until it runs.
func (m *measurement) startOnServer(ctx context.Context, s *session.Spec, source, destination string) error {
	client, err := m.client()
	if err != nil {
		return err
	}
	s.Name = fmt.Sprintf("%s-%s-%d-%d-%d", strings.Trim(strings.ReplaceAll(m.spec.Experiment, "_", "-"), "-"), m.session,
		m.turn.Block, m.turn.Position, m.turn.Attempt)
	s.Sources, s.Destinations = []string{m.agentOf(source)}, []string{m.agentOf(destination)}
	if s.Trace == 0 { // traces are traffic of their own
		s.Trace = -1
	}
	devices := map[string]string{}
	for _, host := range []string{source, destination} {
		device := m.spec.Hosts[host].Device
		if named := s.Device[host]; named != "" {
			device = named
		}
		if device != "" {
			devices[m.agentOf(host)] = device
		}
	}
	s.Device = devices
	forget := func() {}
	if m.lab == nil {
		if forget, err = m.left.addSession(s.Name); err != nil {
			return err
		}
	}
	begin := time.Now()
	if _, err := client.Sessions.CreateSession(ctx, &pillionv1.CreateSessionRequest{Spec: api.SpecMessage(*s)}); err != nil {
		return fmt.Errorf("create session %s: %w", s.Name, err)
	}
	m.applied = append(m.applied, onServer{client, s.Name, begin, forget})
	return awaitState(ctx, client, s.Name, "running")
}

// awaitState waits until a session has a state.
func awaitState(ctx context.Context, client *api.Client, name, state string) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	seen, reason := "", ""
	for {
		answer, err := client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: name})
		if err == nil {
			seen, reason = answer.GetSession().GetState(), answer.GetSession().GetReason()
			if seen == state {
				return nil
			}
			if seen == "ended" {
				return fmt.Errorf("start session %s: it ended: %s", name, reason)
			}
			err = pause(ctx, pollPause)
		}
		if err != nil {
			return fmt.Errorf("wait until session %s is %s: it is %s %s: %w", name, state, seen, reason, err)
		}
	}
}

// onServer is a session that a server carries out.
type onServer struct {
	client *api.Client
	name   string
	begin  time.Time
	forget func()
}

// undo stops the session, sums up its flows and removes it; its rows stay on the server.
func (s onServer) undo() (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*sessionTimeout)
	defer cancel()
	if _, err := s.client.Sessions.StopSession(ctx, &pillionv1.StopSessionRequest{Name: s.name}); err != nil {
		return nil, fmt.Errorf("stop session %s: %w", s.name, err)
	}
	if err := awaitState(ctx, s.client, s.name, "ended"); err != nil {
		return nil, err
	}
	counters, err := s.counters(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.client.Sessions.DeleteSession(ctx, &pillionv1.DeleteSessionRequest{Name: s.name}); err != nil {
		return nil, fmt.Errorf("delete session %s: %w", s.name, err)
	}
	s.forget()
	return counters, nil
}

// endSession stops and removes a session that an earlier runner created, if it is there.
func (r *runner) endSession(ctx context.Context, name string) error {
	client, err := r.client()
	if err != nil {
		return err
	}
	answer, err := client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: name})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil
	}
	if err == nil && answer.GetSession().GetState() != "ended" {
		_, err = client.Sessions.StopSession(ctx, &pillionv1.StopSessionRequest{Name: name})
	}
	if err == nil {
		err = awaitState(ctx, client, name, "ended")
	}
	if err == nil {
		_, err = client.Sessions.DeleteSession(ctx, &pillionv1.DeleteSessionRequest{Name: name})
	}
	if err != nil {
		return fmt.Errorf("end session %s: %w", name, err)
	}
	r.say("ended session %s that an interrupted run left", name)
	return nil
}

// counters sums up the flows of the session, once two answers in a row are the same: the
// last rows are on their way when the session has ended.
func (s onServer) counters(ctx context.Context) (map[string]any, error) {
	var last, now float64 = -1, 0
	counters := map[string]any{}
	for begin := time.Now(); time.Since(begin) < rowsTimeout && (last != now || now == 0); {
		if err := pause(ctx, 4*pollPause); err != nil {
			return nil, err
		}
		answer, err := s.client.Flows.ListFlows(ctx, &pillionv1.ListFlowsRequest{
			Selection: &pillionv1.Selection{Session: s.name}, From: timestamppb.New(s.begin.Add(-time.Minute)),
			To: timestamppb.New(time.Now().Add(time.Minute)), Granularity: "pair",
		})
		if err != nil {
			return nil, fmt.Errorf("list flows of session %s: %w", s.name, err)
		}
		last, now = now, 0
		for _, flow := range answer.GetFlows() {
			w := flow.GetTotal()
			now += float64(w.GetPackets())
			counters["marked"], counters["accepted"] = float64(w.GetExpected()), float64(w.GetPackets())
			counters["session"] = map[string]any{
				"expected": float64(w.GetExpected()), "packets": float64(w.GetPackets()), "bytes": float64(w.GetBytes()),
				"lost": float64(w.GetLost()), "duplicated": float64(w.GetDuplicated()), "reordered": float64(w.GetReordered()),
				"delay_ns": distribution(w.GetDelay()), "ipdv_ns": distribution(w.GetIpdv()),
			}
		}
		if len(answer.GetFlows()) == 0 {
			counters["marked"], counters["accepted"] = 0.0, 0.0
		}
	}
	return counters, nil
}

func distribution(d *pillionv1.Distribution) map[string]any {
	values := map[string]any{"count": float64(d.GetCount())}
	if d.GetCount() > 0 { // NaN otherwise, which JSON does not have
		values["min"], values["mean"], values["p50"] = d.GetMinNs(), d.GetMeanNs(), d.GetP50Ns()
		values["p90"], values["p99"], values["max"] = d.GetP90Ns(), d.GetP99Ns(), d.GetMaxNs()
	}
	return values
}
