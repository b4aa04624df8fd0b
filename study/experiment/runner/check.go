package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"pillion.dev/lab"
	"pillion.dev/study/experiment"
)

// checker finds, before anything runs, what an experiment's file says that its lab or this
// machine does not have.
type checker struct {
	*runner
	mistakes []experiment.Mistake
}

// Check checks an experiment against its lab's file and this machine; file is the text of the
// experiment's file. Nothing is run.
func Check(s *experiment.Spec, file []byte) error {
	c := &checker{runner: &runner{Options: Options{Spec: s}, spec: s, addresses: map[string]string{"agent": "pillion-agent"}}}
	c.source, c.destination = c.ends()
	if s.Lab != "" {
		spec, err := lab.ReadSpec(s.Lab)
		if err != nil {
			c.report("lab", err)
			return experiment.Mistakes(file, c.mistakes)
		}
		c.useLab(&lab.Lab{Spec: *spec})
	}
	c.checkPins()
	if s.Setup != nil {
		c.addresses["scratch"] = "scratch"
		c.checkHost("setup.on", s.Setup.On)
		values := s.SetupValues()
		values.AddHosts(c.addresses)
		c.checkTexts("setup", values, map[string]string{"start": s.Setup.Start, "stop": s.Setup.Stop})
	}
	c.checkHost("run.on", s.Run.On)
	for _, cell := range s.Cells() {
		if !c.checkCell(cell) { // mistakes of further cells are mostly the same
			break
		}
	}
	return experiment.Mistakes(file, c.mistakes)
}

func (c *checker) report(field string, err error) {
	if err != nil {
		c.mistakes = append(c.mistakes, experiment.Mistake{Field: field, Cause: err})
	}
}

func (c *checker) checkHost(field, host string) {
	_, err := c.place(host)
	c.report(field, err)
}

func (c *checker) checkTexts(field string, values experiment.Values, texts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		_, err := values.Replace(texts[name])
		c.report(field+"."+name, err)
	}
}

// checkCell reports whether a cell has no mistakes.
func (c *checker) checkCell(cell experiment.Cell) bool {
	before := len(c.mistakes)
	values := c.spec.Values(cell, experiment.Turn{})
	values.AddHosts(c.addresses)
	c.checkTexts("run", values, map[string]string{"command": c.spec.Run.Command})
	for _, a := range c.spec.TreatmentsOf(cell) {
		field := "treatments." + a.Factor + "." + a.Level
		c.checkHost(field+".on", a.On)
		c.checkTexts(field, values, map[string]string{"start": a.Start, "stop": a.Stop, "command": a.Command})
		if a.Session != nil {
			c.report(field+".session", c.checkSession(a, values))
		}
	}
	return len(c.mistakes) == before
}

func (c *checker) checkSession(a experiment.Applied, values experiment.Values) error {
	spec, err := a.SessionOf(values)
	if err != nil {
		return err
	}
	source, err := end(spec.Sources, c.source, experiment.RoleSource)
	if err != nil {
		return err
	}
	destination, err := end(spec.Destinations, c.destination, experiment.RoleDestination)
	if err != nil {
		return err
	}
	if c.onServer(source, destination) {
		if c.lab != nil && c.lab.ServiceURL() == "" {
			return errNoForward
		}
		return nil
	}
	for _, host := range []string{source, destination} {
		p, err := c.place(host)
		if err != nil {
			return err
		}
		if p.lab == nil && c.spec.Hosts[host].Device == "" && spec.Device[host] == "" {
			return noDevice(host)
		}
	}
	return byHandOnly(spec)
}

// checkPins checks that hosts and processors exist; processors of other machines are not known.
func (c *checker) checkPins() {
	pins := c.spec.Environment.Pin
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		field := "environment.pin." + name
		host := name
		switch name {
		case "run":
			host = c.spec.Run.On
		case experiment.RoleSource:
			host = c.source
		case experiment.RoleDestination:
			host = c.destination
		}
		p, err := c.place(host)
		if errors.Is(err, errNoHost) {
			c.report(field, err)
			continue
		}
		if p.ssh == "" && c.spec.Hosts[p.name].Agent == "" {
			if err := pinned(pins[name], func() error { return nil }); err != nil {
				c.report(field, fmt.Errorf("this machine has no such processor: %w", err))
			}
		}
	}
}
