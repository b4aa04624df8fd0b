package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ReadRequest reads a request of the server, which may be of a later version. A task
// with a field that this version does not know is not part of the assignment: to ignore
// the field could change what the task does. It is returned in refused, not running, with
// the reason, while the other tasks are carried out; so is a task of an unknown kind. A
// field beside the lists of tasks is ignored: later versions put there only what agents may
// ignore.
func ReadRequest(text []byte) (request Request, refused []TaskState, err error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return request, nil, fmt.Errorf("read request: %w", err)
	}
	apply := parts["apply"]
	if !given(apply) {
		if err := strictly(text, &request); err != nil {
			return Request{}, nil, fmt.Errorf("read request: %w", newer(err))
		}
		return request, nil, nil
	}
	request.Apply = &Assignment{}
	if refused, err = request.Apply.read(apply); err != nil {
		return Request{}, nil, fmt.Errorf("read assignment: %w", err)
	}
	if pulse := parts["pulse"]; given(pulse) {
		if err := json.Unmarshal(pulse, &request.Pulse); err != nil {
			return Request{}, nil, fmt.Errorf("read heartbeat: %w", err)
		}
	}
	return request, refused, nil
}

func (a *Assignment) read(text []byte) (refused []TaskState, err error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		part, more := parts[name], []TaskState(nil)
		switch name {
		case "revision":
			err = json.Unmarshal(part, &a.Revision)
		case "destinations":
			a.Destinations, more, err = readTasks[DestinationTask](part, "destination")
		case "sources":
			a.Sources, more, err = readTasks[SourceTask](part, "source")
		case "traces":
			a.Traces, more, err = readTasks[TraceTask](part, "trace")
		case "points":
			a.Points, more, err = readTasks[PointTask](part, "point")
		default:
			more = unknownTasks(name, part)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		refused = append(refused, more...)
	}
	return refused, nil
}

// readTasks reads a list of tasks of one kind; those with unknown fields are refused.
func readTasks[T any](text []byte, role string) (tasks []T, refused []TaskState, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, nil, err
	}
	for _, one := range list {
		var task T
		err := strictly(one, &task)
		if err == nil {
			tasks = append(tasks, task)
			continue
		}
		if !unknownField(err) {
			return nil, nil, err
		}
		refused = append(refused, refusal(one, role, newer(err)))
	}
	return tasks, refused, nil
}

// unknownTasks refuses the tasks of a kind that this version does not know; anything but
// a list of tasks is ignored.
func unknownTasks(kind string, text []byte) (refused []TaskState) {
	var list []struct {
		Session string `json:"session"`
	}
	if json.Unmarshal(text, &list) != nil {
		return nil
	}
	for _, task := range list {
		if task.Session != "" {
			refused = append(refused, TaskState{Session: task.Session, Role: clipRole(kind),
				Error: fmt.Sprintf("requires a newer agent: unknown kind of task %.40q", kind)})
		}
	}
	return refused
}

func refusal(text []byte, role string, why error) TaskState {
	var known struct {
		Session string `json:"session"`
		Device  string `json:"device"`
		Point   string `json:"point"`
	}
	_ = json.Unmarshal(text, &known) // the fields were read before
	if known.Point != "" {
		role = known.Point
	}
	return TaskState{Session: known.Session, Role: role, Device: known.Device, Error: why.Error()}
}

func clipRole(kind string) string { return strings.ToValidUTF8(kind[:min(len(kind), 40)], "?") }

func given(text json.RawMessage) bool { return len(text) > 0 && string(text) != "null" }

func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// unknownField recognises the error by its text: the package json has no type for it.
func unknownField(err error) bool { return strings.HasPrefix(err.Error(), "json: unknown field ") }

// newer explains an unknown field.
func newer(err error) error {
	if !unknownField(err) {
		return err
	}
	return fmt.Errorf("requires a newer agent: %s", strings.TrimPrefix(err.Error(), "json: "))
}
