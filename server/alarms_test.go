package server

import (
	"maps"
	"testing"
	"time"

	"pillion.dev/server/alarm"
)

func TestCountAlarms(t *testing.T) {
	rules := []alarm.Rule{{Name: "loss", Severity: "warning"}, {Name: "silence", Severity: "critical"}}
	of := func(rule string, change func(*alarm.Alarm)) alarm.Alarm {
		a := alarm.Alarm{Rule: rule, Labels: map[string]string{"severity": "warning"}}
		change(&a)
		return a
	}
	got := map[string]float64{}
	for _, f := range countAlarms(rules, []alarm.Alarm{
		of("loss", func(*alarm.Alarm) {}),
		of("loss", func(*alarm.Alarm) {}),
		of("loss", func(a *alarm.Alarm) { a.Ended = time.Unix(1, 0) }),
		of("loss", func(a *alarm.Alarm) { a.Acknowledged = &alarm.Acknowledgement{} }),
		of("loss", func(a *alarm.Alarm) { a.Acknowledged, a.SilencedBy = &alarm.Acknowledgement{}, []string{"1"} }),
		of("removed rule", func(*alarm.Alarm) {}),
	}) {
		got[f.Labels["rule"]+" "+f.Labels["severity"]+" "+f.Labels["state"]] = f.Value
	}
	want := map[string]float64{
		"loss warning active": 2, "loss warning acknowledged": 1, "loss warning silenced": 1, "silence critical active": 0, "removed rule warning active": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
