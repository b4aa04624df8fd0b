package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"pillion.dev/lab"
	"pillion.dev/study/experiment"
)

// errEnds: it is not clear which hosts a session is between.
var errEnds = errors.New("the hosts are ambiguous")

// prepare makes what all runs share: the lab, the setup and the stream of rows.
func (r *runner) prepare(ctx context.Context) error {
	r.addresses = map[string]string{"agent": r.Agent}
	r.source, r.destination = r.ends()
	if r.spec.Lab != "" {
		if err := r.startLab(ctx); err != nil {
			return err
		}
	}
	if err := r.setUp(ctx); err != nil {
		return err
	}
	var err error
	r.stream, err = openStream(r.Options)
	r.warnOfCollector()
	return err
}

// startLab starts the lab; one of the same name that is up is replaced.
func (r *runner) startLab(ctx context.Context) error {
	spec, err := lab.ReadSpec(r.spec.Lab)
	if err != nil {
		return err
	}
	r.say("starting lab %s", spec.Name)
	if err := r.left.change(func() { r.left.Lab = spec.Name }); err != nil {
		return err
	}
	up, err := lab.Up(ctx, spec, lab.Options{Agent: r.Agent})
	if err != nil {
		return err
	}
	r.useLab(up)
	return nil
}

// useLab takes the hosts and their addresses from a lab.
func (r *runner) useLab(l *lab.Lab) {
	r.lab = l
	r.source, r.destination = labEnds(&l.Spec)
	for _, link := range l.Spec.Links {
		for host, prefixes := range link.Addresses {
			for _, prefix := range prefixes {
				name := "address." + host
				if prefix.Addr().Is6() {
					name = "address6." + host
				}
				if r.addresses[name] == "" {
					r.addresses[name] = prefix.Addr().String()
				}
			}
		}
	}
	r.addresses["address"] = r.addresses["address."+r.destination]
	r.addresses["address6"] = r.addresses["address6."+r.destination]
}

// labEnds are the hosts that traffic is between unless the file says otherwise: those named
// source and destination or, if only two hosts neither forward nor run the server, these,
// in the order of the links.
func labEnds(spec *lab.Spec) (source, destination string) {
	if _, ok := spec.Hosts[experiment.RoleSource]; ok {
		if _, ok := spec.Hosts[experiment.RoleDestination]; ok {
			return experiment.RoleSource, experiment.RoleDestination
		}
	}
	var ends []string
	for _, link := range spec.Links {
		for _, host := range link.Ends {
			server := spec.Service != nil && spec.Service.Server == host && !slices.Contains(spec.Service.Agents, host)
			if !spec.Hosts[host].Forward && !server && !slices.Contains(ends, host) {
				ends = append(ends, host)
			}
		}
	}
	if len(ends) != 2 {
		return "", ""
	}
	return ends[0], ends[1]
}

// ends returns the source and the destination in an experiment without a lab: the hosts of these names.
func (r *runner) ends() (source, destination string) {
	for _, host := range slices.Sorted(maps.Keys(r.spec.Hosts)) {
		switch host {
		case experiment.RoleSource:
			source = host
		case experiment.RoleDestination:
			destination = host
		}
	}
	return source, destination
}

// cleanUp removes what prepare made, also after an interrupt.
func (r *runner) cleanUp() error {
	err := errors.Join(r.stream.close(), r.tearDown())
	if r.lab != nil {
		err = errors.Join(err, lab.Down(context.Background(), r.lab.Spec.Name))
	}
	return errors.Join(err, r.left.remove())
}

// createFolder writes the design beside the environment as it is once the lab is up.
func (r *runner) createFolder(ctx context.Context) error {
	environment := r.environment(ctx)
	r.described = time.Now()
	for _, line := range environmentLines(environment) {
		r.say("the hosts differ: %s", line)
	}
	r.stream.describe(environment)
	return experiment.Create(r.Folder, r.spec, r.File, environment, now())
}

func environmentLines(environment map[string]any) []string {
	lines, _ := environment[experiment.HostDifferences].([]string) // absent without a difference
	return lines
}

// makeFolder checks that the folder holds no results, or results of this design. The returned function removes a
// folder that it made, if nothing came of it.
func (r *runner) makeFolder() (remove func(), err error) {
	remove = func() {}
	if r.Resume {
		return remove, experiment.Compare(r.Folder, r.spec)
	}
	if experiment.HasResults(r.Folder) {
		return remove, fmt.Errorf("create results in %s: %w", r.Folder, experiment.ErrExists)
	}
	if _, err := os.Stat(r.Folder); errors.Is(err, fs.ErrNotExist) {
		remove = func() { _ = os.Remove(r.Folder) } // fails, as it should, if there are files in it
	}
	if err := os.MkdirAll(r.Folder, 0o755); err != nil {
		return remove, fmt.Errorf("create results: %w", err)
	}
	return remove, nil
}
