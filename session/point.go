package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pillion.dev/measure/point"
	"pillion.dev/wire/fivetuple"
)

// PointRequest asks for one point of package measure/point.
type PointRequest struct {
	// Name of the point.
	Name string `json:"name" yaml:"name"`
	// Agents that measure it, as in sources; only for points that run on agents.
	Agents []string `json:"agents,omitempty" yaml:"agents,omitempty"`
	// Options by name; the others have their defaults.
	Options map[string]string `json:"options,omitempty" yaml:"options,omitempty"`
}

// ParsePoint parses NAME[:OPTION=VALUE,...][@AGENT,...], the form of the command line.
func ParsePoint(text string) (PointRequest, error) {
	head, agents, placed := strings.Cut(text, "@")
	name, options, _ := strings.Cut(head, ":")
	request := PointRequest{Name: name}
	if placed {
		request.Agents = strings.Split(agents, ",")
	}
	if options == "" {
		return request, nil
	}
	request.Options = map[string]string{}
	for _, assignment := range splitOptions(options) {
		key, value, ok := strings.Cut(assignment, "=")
		if !ok {
			return request, fmt.Errorf("read point %q: %q is not OPTION=VALUE", text, assignment)
		}
		request.Options[key] = value
	}
	return request, nil
}

// splitOptions splits at commas outside of parentheses, which models contain.
func splitOptions(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth <= 0
	})
}

// String returns the form that ParsePoint parses.
func (r PointRequest) String() string {
	text := r.Name
	for i, key := range slices.Sorted(maps.Keys(r.Options)) {
		text += [2]string{":", ","}[min(i, 1)] + key + "=" + r.Options[key]
	}
	if len(r.Agents) > 0 {
		text += "@" + strings.Join(r.Agents, ",")
	}
	return text
}

// Chosen is the request without the options that have their defaults.
func (r PointRequest) Chosen() PointRequest {
	if d := point.Find(r.Name); d != nil {
		defaults := d.Complete(nil)
		r.Options = maps.Clone(r.Options)
		maps.DeleteFunc(r.Options, func(name, value string) bool {
			standard, known := defaults[name]
			return known && standard == value
		})
	}
	return r
}

// placedPoint is a request with its descriptor and the field of the specification that
// lists its agents.
type placedPoint struct {
	PointRequest
	*point.Descriptor
	agentsField string
}

// placedPoints are the known points that the specification requests, including those
// of Routers.
func (s Spec) placedPoints() []placedPoint {
	var placed []placedPoint
	if len(s.Routers) > 0 {
		placed = append(placed, placedPoint{PointRequest{Name: point.Router.Name, Agents: s.Routers}, point.Router, "routers"})
	}
	for i, request := range s.Points {
		if d := point.Find(request.Name); d != nil {
			placed = append(placed, placedPoint{request, d, fmt.Sprintf("points[%d].agents", i)})
		}
	}
	return placed
}

// task is the task of each agent for the point, without peers.
func (p placedPoint) task(spec Spec) PointTask {
	task := PointTask{
		Session: spec.Name, Point: p.Descriptor.Name, Options: p.Descriptor.Complete(p.PointRequest.Options),
		Interval: max(spec.Interval, Duration(p.MinInterval)), Lease: spec.Lease,
	}
	switch {
	case p.Match == point.MatchFlows:
		task.Filters = spec.Filters
	case p.Match == point.MatchAddresses && len(spec.Filters) == 1:
		if narrow := (fivetuple.Filter{Src: spec.Filters[0].Src, Dst: spec.Filters[0].Dst}); narrow != (fivetuple.Filter{}) {
			task.Filters = []fivetuple.Filter{narrow}
		}
	}
	return task
}

// action describes the task.
func (p placedPoint) action(task PointTask) string {
	if len(task.Filters) == 0 {
		return p.Action
	}
	texts := make([]string, len(task.Filters))
	for i, filter := range task.Filters {
		texts[i] = filter.String()
	}
	return p.Action + ", only those with " + strings.Join(texts, " or ")
}

func (p placedPoint) costs(spec Spec) string {
	return strings.ReplaceAll(p.Cost, "{interval}", p.task(spec).Interval.String())
}

// ResolvePoints checks the agents that points select. Warnings and problems are those
// of Resolve.
func ResolvePoints(spec Spec, hosts []Host) (warnings []string, faults []Problem) {
	var found problems
	for _, p := range spec.placedPoints() {
		if p.Placement == point.OnAgents {
			_, more := found.choose(p.agentsField, p.Agents, hosts)
			warnings = append(warnings, more...)
		}
	}
	return warnings, found
}

// assignPoints adds the tasks of points to assignments that already have the tasks of destinations and sources.
func assignPoints(spec Spec, hosts []Host, assignments map[string]Assignment) {
	add := func(agent string, task PointTask, peers []Peer) {
		a := assignments[agent]
		task.Peers = peers
		a.Points = append(a.Points, task)
		assignments[agent] = a
	}
	for _, p := range spec.placedPoints() {
		task := p.task(spec)
		if p.Placement == point.OnAgents {
			var ignored problems // ResolvePoints returns them
			names, _ := ignored.choose(p.agentsField, p.Agents, hosts)
			for name := range names {
				add(name, task, nil)
			}
			continue
		}
		for agent, a := range assignments {
			switch {
			case p.Placement == point.OnDestinations && len(a.Destinations) > 0:
				add(agent, task, a.Destinations[0].Peers)
			case p.Placement == point.OnSources && len(a.Sources) > 0:
				add(agent, task, a.Sources[0].Peers)
			case p.Placement == point.OnPairs && len(a.Sources) > 0:
				for _, peer := range a.Sources[0].Peers {
					add(agent, task, []Peer{peer})
				}
			}
		}
	}
}

// points checks the requested points.
func (p *problems) points(s Spec) {
	if len(s.Routers) > 0 {
		p.selectors("routers", s.Routers)
	}
	for i, request := range s.Points {
		at, before := fmt.Sprintf("points[%d]", i), len(*p)
		d := point.Find(request.Name)
		if d == nil {
			p.add(at+".name", "unknown point %q; valid: %s", request.Name, strings.Join(point.Names(), ", "))
			continue
		}
		if d.Placement == point.OnAgents {
			p.selectors(at+".agents", request.Agents)
		} else if len(request.Agents) > 0 {
			p.add(at+".agents", "%s runs on the session's %s; it takes no agents", d.Name, d.Placement)
		}
		for _, name := range slices.Sorted(maps.Keys(request.Options)) {
			field := at + ".options[" + name + "]"
			i := slices.IndexFunc(d.Options, func(o point.Option) bool { return o.Name == name })
			if i < 0 {
				p.add(field, "%s has no option %q", d.Name, name)
			} else if err := d.Options[i].Check(request.Options[name]); err != nil {
				p.add(field, "%v", err)
			}
		}
		if d.Check != nil && len(*p) == before {
			if err := d.Check(d.Complete(request.Options)); err != nil {
				p.add(at+".options", "%v", err)
			}
		}
	}
}

// completePoints fills in the defaults of the points' options.
func completePoints(requests []PointRequest) []PointRequest {
	requests = slices.Clone(requests)
	for i := range requests {
		if d := point.Find(requests[i].Name); d != nil {
			requests[i].Options = d.Complete(requests[i].Options)
		}
	}
	return requests
}
