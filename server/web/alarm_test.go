package web

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/server/alarm"
)

// fakeAlarms keep what they are asked.
type fakeAlarms struct{ by, comment string }

func (f *fakeAlarms) Alarms() []alarm.Alarm {
	one := alarm.Alarm{ID: "1", Rule: "loss", Labels: map[string]string{"source": "a\xff"}, Began: time.Unix(1, 0), Acknowledged: &alarm.Acknowledgement{By: f.by, Comment: f.comment}}
	ended := alarm.Alarm{ID: "2", Rule: "loss", Began: time.Unix(1, 0), Ended: time.Unix(2, 0)}
	return []alarm.Alarm{ended, one}
}

func (f *fakeAlarms) AllRules() []alarm.Rule {
	return []alarm.Rule{{Name: "loss", On: alarm.Loss, Above: "1%"}}
}

func (f *fakeAlarms) Acknowledge(_ context.Context, id, by, comment string, _ bool) error {
	if id != "1" {
		return alarm.ErrUnknown
	}
	f.by, f.comment = by, comment
	return nil
}

func (f *fakeAlarms) Silences() []alarm.SilenceRecord {
	return []alarm.SilenceRecord{{ID: "s", By: f.by}}
}

func (f *fakeAlarms) Silence(_ context.Context, matchers []string, length time.Duration, by, comment string) (alarm.SilenceRecord, error) {
	_, err := alarm.ParseMatchers(matchers)
	return alarm.SilenceRecord{ID: "s", Matchers: matchers, By: by, Comment: comment, Ends: time.Unix(0, int64(length))}, err
}

func (f *fakeAlarms) Expire(_ context.Context, id string) error {
	if id != "s" {
		return alarm.ErrUnknown
	}
	return nil
}

func TestAlarmService(t *testing.T) {
	f := &fakeAlarms{}
	s := &alarms{f}
	ctx := context.WithValue(t.Context(), callerKey{}, caller{token: "ann"})
	if _, err := s.AcknowledgeAlarm(ctx, &pillionv1.AcknowledgeAlarmRequest{Id: "1", Comment: "mine"}); err != nil {
		t.Fatal(err)
	}
	list, err := s.ListAlarms(ctx, &pillionv1.ListAlarmsRequest{Active: true})
	if err != nil || len(list.Alarms) != 1 || list.Alarms[0].Id != "1" || list.Alarms[0].Acknowledgement.By != "ann" || list.Alarms[0].Labels["source"] != "a\uFFFD" {
		t.Errorf("got %v, %v", list, err)
	}
	list, err = s.ListAlarms(ctx, &pillionv1.ListAlarmsRequest{PageSize: 1})
	if err != nil || len(list.Alarms) != 1 || list.NextPageToken == "" {
		t.Errorf("got %v, %v", list, err)
	}
	made, err := s.CreateSilence(ctx, &pillionv1.CreateSilenceRequest{Matchers: []string{"source=a"}, DurationNs: 5e9})
	if err != nil || made.Silence.By != "ann" || made.Silence.Ends.AsTime().Unix() != 5 {
		t.Errorf("got %v, %v", made, err)
	}
	for name, call := range map[string]func() error{
		"unknown alarm":   func() error { _, err := s.AcknowledgeAlarm(ctx, &pillionv1.AcknowledgeAlarmRequest{}); return err },
		"unknown silence": func() error { _, err := s.ExpireSilence(ctx, &pillionv1.ExpireSilenceRequest{}); return err },
	} {
		if code, _ := codeOf(call()); code != connect.CodeNotFound {
			t.Errorf("%s: %v", name, code)
		}
	}
	_, err = s.CreateSilence(ctx, &pillionv1.CreateSilenceRequest{Matchers: []string{"?"}})
	if code, _ := codeOf(err); code != connect.CodeInvalidArgument {
		t.Errorf("got %v", err)
	}
}
