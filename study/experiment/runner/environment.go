package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/machine"
	"pillion.dev/internal/version"
	"pillion.dev/study/experiment"
)

// describeTimeout bounds the description of one host.
const describeTimeout = 15 * time.Second

// environment describes this machine and the hosts of the experiment, as metadata of the
// results. What is not available is absent.
func (r *runner) environment(ctx context.Context) map[string]any {
	e := map[string]any{"runner": os.Args[0], "version": version.String()}
	// A lab's interfaces are the interfaces of its hosts.
	for name, value := range machine.Read("lo") {
		group, rest, grouped := strings.Cut(name, ".")
		number, err := strconv.ParseUint(value, 10, 64)
		switch {
		case strings.HasPrefix(name, machine.Offloads):
		case grouped:
			if e[group] == nil {
				e[group] = map[string]any{}
			}
			e[group].(map[string]any)[rest] = value
		case err == nil && (name == "processors" || name == "memory_mb"):
			e[name] = number
		default:
			e[name] = value
		}
	}
	add := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" {
			e[name] = value
		}
	}
	load, _ := os.ReadFile("/proc/loadavg") // absent in some containers
	add("load_before", string(load))
	add("commit", commit(filepath.Dir(r.Path)))
	if path, err := filepath.Abs(r.Path); err == nil {
		e["file"] = path
	}
	hosts := r.describeHosts(ctx)
	if len(hosts) > 0 {
		e["hosts"] = hosts
	}
	if lines := machine.Differences(hosts); len(lines) > 0 && r.lab == nil {
		e[experiment.HostDifferences] = lines
	}
	return e
}

// describeHosts describes the hosts of the experiment: those under hosts, and in a lab, whose
// hosts are this machine, the devices at the ends of sessions.
func (r *runner) describeHosts(ctx context.Context) map[string]machine.Facts {
	hosts := map[string]machine.Facts{}
	for _, host := range slices.Sorted(maps.Keys(r.spec.Hosts)) {
		facts, err := r.describe(ctx, host)
		if err != nil {
			r.say("describe host %s: %v", host, err)
			facts = machine.Facts{machine.Incomplete: err.Error()}
		}
		hosts[host] = facts
	}
	if r.lab == nil {
		return hosts
	}
	for host, other := range map[string]string{r.source: r.destination, r.destination: r.source} {
		p, err := r.place(host)
		if host == "" || err != nil || p.lab == nil {
			continue
		}
		device, err := r.device(p, other)
		if err != nil {
			continue // there is no route between them
		}
		facts := machine.Facts{}
		// The namespace exists while the lab is up.
		_ = p.lab.Do(host, func() error { facts = machine.Read(device); return nil })
		maps.DeleteFunc(facts, func(name, _ string) bool { return !strings.HasPrefix(name, machine.Offloads) })
		hosts[host] = facts
	}
	return hosts
}

// describe describes one host, in the way in which it is reached.
func (r *runner) describe(ctx context.Context, host string) (machine.Facts, error) {
	entry := r.spec.Hosts[host]
	var devices []string
	if entry.Device != "" {
		devices = []string{entry.Device}
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	switch {
	case entry.SSH != "":
		text, err := exec.CommandContext(ctx, "ssh", append(sshOptions(), entry.SSH, "sh -c "+quote(machine.Script(devices...)))...).Output()
		if err != nil {
			return nil, fmt.Errorf("run ssh %s: %w", entry.SSH, said(err))
		}
		return machine.Parse(text)
	case entry.Agent != "":
		return r.describeAgent(ctx, entry.Agent, devices)
	}
	return machine.Read(devices...), nil
}

// describeAgent asks the server. A caller without the role for that learns what the agent reports.
func (r *runner) describeAgent(ctx context.Context, agent string, devices []string) (machine.Facts, error) {
	client, err := r.client()
	if err != nil {
		return nil, err
	}
	answer, err := client.Agents.DescribeAgent(ctx, &pillionv1.DescribeAgentRequest{Name: agent, Devices: devices})
	if err == nil {
		return machine.Bound(answer.GetFacts()), nil
	}
	if code := connect.CodeOf(err); code != connect.CodePermissionDenied {
		return nil, fmt.Errorf("describe agent %s: %w", agent, err)
	}
	known, failed := client.Agents.GetAgent(ctx, &pillionv1.GetAgentRequest{Name: agent})
	if failed != nil {
		return nil, fmt.Errorf("describe agent %s: %w", agent, failed)
	}
	return machine.Facts{
		"kernel": known.GetAgent().GetKernel(), "version": known.GetAgent().GetVersion(), machine.Incomplete: "the server does not describe agents: " + connect.CodeOf(err).String(),
	}, nil
}

// said adds what a program printed to its error.
func said(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(string(exit.Stderr)), " "))
	}
	return err
}

// describePause is the shortest time between two descriptions of the hosts while the
// experiment runs.
const describePause = 5 * time.Minute

// watchEnvironment notes in the results, and says, how the environment has changed since they
// were begun: when the experiment resumes and ends, and every few minutes between blocks.
func (r *runner) watchEnvironment(ctx context.Context, always bool) error {
	if !always && time.Since(r.described) < describePause {
		return nil
	}
	e := r.environment(ctx)
	r.described = time.Now()
	lines, err := experiment.NoteChanges(r.Folder, e, r.complete())
	for _, line := range lines {
		r.say("the environment has changed: %s", line)
	}
	return err
}

// commit is the git description of a folder, "" outside of a repository.
func commit(folder string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	name, _ := exec.CommandContext(ctx, "git", "-C", folder, "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty").Output()
	return string(name)
}
