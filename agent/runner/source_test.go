package runner

import (
	"errors"
	"testing"

	"pillion.dev/session"
)

func TestTaskSetsTimeStamps(t *testing.T) {
	task := sourceTask{SourceTask: session.SourceTask{Modules: []string{"delay", "loss"}, Encoding: "native", StampEvery: 1}}
	settings, err := task.settings()
	if err != nil || settings.StampEvery != 1 {
		t.Errorf("settings %+v, %v", settings, err)
	}
	other := task
	other.StampEvery = 100
	if err := agreed([]sourceTask{task, other}); !errors.Is(err, errDisagree) {
		t.Errorf("one program for 1 and 100: %v", err)
	}
	other = task
	other.SparseMarks = true
	if settings, err := other.settings(); err != nil || !settings.Sparse {
		t.Errorf("settings %+v, %v", settings, err)
	}
	if err := agreed([]sourceTask{task, other}); !errors.Is(err, errDisagree) {
		t.Errorf("one program with and without sparse marks: %v", err)
	}
	if err := agreed([]sourceTask{task, task}); err != nil {
		t.Error(err)
	}
}
