package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"pillion.dev/api/pillionv1"
	"pillion.dev/study/experiment"
)

// errAttached: something is attached where a treatment expects nothing. Such a run would
// make every other one look good.
var errAttached = errors.New("expected bare hosts")

// checkBare looks at the hosts if a treatment of the run expects them to be bare.
func (m *measurement) checkBare(ctx context.Context) error {
	for _, a := range m.spec.TreatmentsOf(m.turn.Cell) {
		if a.Expect == nil || !a.Expect.Bare {
			continue
		}
		found, err := m.attachments(ctx)
		if err != nil {
			return fmt.Errorf("treatment %s=%s: %w", a.Factor, a.Level, err)
		}
		if len(found) > 0 {
			return fmt.Errorf("treatment %s=%s: %w: %s", a.Factor, a.Level, errAttached, strings.Join(found, "; "))
		}
	}
	return nil
}

// attachments lists what is attached to the hosts of the experiment.
func (r *runner) attachments(ctx context.Context) ([]string, error) {
	var all []string
	if r.lab != nil {
		for _, host := range slices.Sorted(maps.Keys(r.lab.Spec.Hosts)) {
			var found []string
			err := r.lab.Do(host, func() (err error) {
				found, err = attached()
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("list what is attached on %s: %w", host, err)
			}
			for _, what := range found {
				all = append(all, what+" on host "+host)
			}
		}
		return all, nil
	}
	for _, host := range slices.Sorted(maps.Keys(r.spec.Hosts)) {
		found, err := r.attachedTo(ctx, host, r.spec.Hosts[host])
		if err != nil {
			return nil, fmt.Errorf("list what is attached on %s: %w", host, err)
		}
		for _, what := range found {
			all = append(all, what+" on host "+host)
		}
	}
	return all, nil
}

func (r *runner) attachedTo(ctx context.Context, host string, entry experiment.Host) ([]string, error) {
	switch {
	case entry.Local:
		return attached()
	case entry.SSH != "":
		const ask = "PATH=$PATH:/usr/sbin:/sbin; bpftool -j net show && echo && cat /proc/net/packet"
		text, err := exec.CommandContext(ctx, "ssh", append(sshOptions(), entry.SSH, ask)...).Output()
		if err != nil {
			return nil, fmt.Errorf("run bpftool there: %w", said(err))
		}
		return parseAttached(string(text))
	}
	return r.runningOn(ctx, r.agentOf(host))
}

// runningOn lists the sessions of the server that an agent takes part in.
func (r *runner) runningOn(ctx context.Context, agent string) ([]string, error) {
	client, err := r.client()
	if err != nil {
		return nil, err
	}
	answer, err := client.Sessions.ListSessions(ctx, &pillionv1.ListSessionsRequest{})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var found []string
	for _, s := range answer.GetSessions() {
		switch s.GetState() {
		case "scheduled", "paused", "ended":
			continue
		}
		for _, pair := range s.GetPairs() {
			if pair.GetSource() == agent || pair.GetDestination() == agent {
				found = append(found, "session "+s.GetSpec().GetName())
				break
			}
		}
	}
	return found, nil
}

// attached lists the programs, filters and packet sockets of this thread's namespace.
func attached() ([]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var found []string
	for _, l := range links {
		name := l.Attrs().Name
		add := func(what string, id uint32) {
			found = append(found, fmt.Sprintf("program %d at %s of %s", id, what, name))
		}
		if xdp := l.Attrs().Xdp; xdp != nil && xdp.Attached {
			add("xdp", xdp.ProgId)
		}
		for _, at := range []struct {
			name   string
			attach ebpf.AttachType
			parent uint32
		}{
			{"ingress", ebpf.AttachTCXIngress, netlink.HANDLE_MIN_INGRESS},
			{"egress", ebpf.AttachTCXEgress, netlink.HANDLE_MIN_EGRESS},
		} {
			// Kernels without tcx have none, interfaces without clsact no filters.
			if programs, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: at.attach}); err == nil {
				for _, p := range programs.Programs {
					add(at.name, uint32(p.ID))
				}
			}
			filters, _ := netlink.FilterList(l, at.parent)
			for _, f := range filters {
				found = append(found, fmt.Sprintf("filter %s at %s of %s", f.Type(), at.name, name))
			}
		}
	}
	text, err := os.ReadFile("/proc/thread-self/net/packet")
	if err != nil {
		return nil, fmt.Errorf("list packet sockets: %w", err)
	}
	return append(found, packetSockets(string(text))...), nil
}

// packetSockets counts the lines of /proc/net/packet behind its heading.
func packetSockets(text string) []string {
	if n := strings.Count(strings.TrimSpace(text), "\n"); n > 0 {
		return []string{fmt.Sprintf("packet sockets: %d", n)}
	}
	return nil
}

// parseAttached reads what bpftool says, and then the list of packet sockets.
func parseAttached(text string) ([]string, error) {
	programs, sockets, _ := strings.Cut(text, "\n")
	var list []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(programs), &list); err != nil {
		return nil, fmt.Errorf("read output of bpftool: %w", err)
	}
	var found []string
	for _, object := range list {
		for _, kind := range []string{"xdp", "tc"} {
			var entries []struct {
				Device string `json:"devname"`
				Kind   string `json:"kind"`
				Name   string `json:"name"`
				ID     int    `json:"id"`
				Prog   int    `json:"prog_id"`
			}
			if object[kind] == nil {
				continue
			}
			if err := json.Unmarshal(object[kind], &entries); err != nil {
				return nil, fmt.Errorf("read output of bpftool: %s: %w", kind, err)
			}
			for _, e := range entries {
				found = append(found, fmt.Sprintf("program %s %d at %s %s of %s", e.Name, max(e.ID, e.Prog), kind, e.Kind, e.Device))
			}
		}
	}
	return append(found, packetSockets(sockets)...), nil
}
