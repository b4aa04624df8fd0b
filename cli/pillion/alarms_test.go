package pillion

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
)

// ListAlarms has one alarm in each state.
func (f *fake) ListAlarms(_ context.Context, r *pillionv1.ListAlarmsRequest) (*pillionv1.ListAlarmsResponse, error) {
	of := func(id, severity string) *pillionv1.Alarm {
		return &pillionv1.Alarm{
			Id: id, Rule: "loss", Labels: map[string]string{"alertname": "loss", "severity": severity, "source": "north1"}, Session: "web", Source: "north1",
			Destination: "south1", Began: at(0), Summary: "north1 > south1 lost 3 % (30 of 1,000 packets) in 10 s, threshold 1 %",
		}
	}
	alarms := []*pillionv1.Alarm{of("2f7c0c5e1d0b9a64", "critical"), of("30a0000000000001", "warning"), of("30a0000000000002", "warning")}
	alarms[1].Acknowledgement = &pillionv1.Acknowledgement{By: "ann", At: at(time.Minute)}
	alarms[2].SilencedBy = []string{"k3v9x2m7qa"}
	if !r.Active {
		ended := of("30a0000000000003", "warning")
		ended.Ended, ended.Ending = at(time.Hour), "north1 > south1: loss is over after 1 h"
		alarms = append(alarms, ended)
	}
	return &pillionv1.ListAlarmsResponse{Alarms: alarms}, nil
}

func (f *fake) AcknowledgeAlarm(_ context.Context, r *pillionv1.AcknowledgeAlarmRequest) (*pillionv1.AcknowledgeAlarmResponse, error) {
	if r.Id == "0" {
		return nil, connect.NewError(connect.CodeNotFound, errors.New(`active alarm "0" not found`))
	}
	f.note("acknowledge %s: %s", r.Id, r.Comment)
	return &pillionv1.AcknowledgeAlarmResponse{}, nil
}

func cannedSilence() *pillionv1.Silence {
	return &pillionv1.Silence{Id: "k3v9x2m7qa", Matchers: []string{`source="north1"`}, By: "ann", Begins: at(0), Ends: at(100 * 365 * 24 * time.Hour), Comment: "maintenance"}
}

func (f *fake) CreateSilence(context.Context, *pillionv1.CreateSilenceRequest) (*pillionv1.CreateSilenceResponse, error) {
	return &pillionv1.CreateSilenceResponse{Silence: cannedSilence()}, nil
}

func (f *fake) ListSilences(context.Context, *pillionv1.ListSilencesRequest) (*pillionv1.ListSilencesResponse, error) {
	old := cannedSilence()
	old.Id, old.Ends = "old", at(time.Hour)
	return &pillionv1.ListSilencesResponse{Silences: []*pillionv1.Silence{cannedSilence(), old}}, nil
}

func (f *fake) ExpireSilence(context.Context, *pillionv1.ExpireSilenceRequest) (*pillionv1.ExpireSilenceResponse, error) {
	return &pillionv1.ExpireSilenceResponse{}, nil
}

func (f *fake) ListAlarmRules(context.Context, *pillionv1.ListAlarmRulesRequest) (*pillionv1.ListAlarmRulesResponse, error) {
	return &pillionv1.ListAlarmRulesResponse{Rules: []*pillionv1.AlarmRule{
		{Name: "loss", On: "loss", Above: "0.01", OverNs: 10e9, Packets: 100, KeepFiringForNs: 30e9, Severity: "warning"},
		{Name: "rerouted", On: "path", KeepFiringForNs: 300e9, Severity: "info", Disabled: true},
	}}, nil
}
