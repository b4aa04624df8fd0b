package web

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/server/alarm"
)

// Alarms are the alarms of the server.
type Alarms interface {
	Alarms() []alarm.Alarm
	AllRules() []alarm.Rule
	Acknowledge(ctx context.Context, id, by, comment string, withdraw bool) error
	Silences() []alarm.SilenceRecord
	Silence(ctx context.Context, matchers []string, length time.Duration, by, comment string) (alarm.SilenceRecord, error)
	Expire(ctx context.Context, id string) error
}

// alarms implements AlarmService.
type alarms struct{ alarms Alarms }

// ListAlarms returns alarms.
func (s *alarms) ListAlarms(ctx context.Context, request *pillionv1.ListAlarmsRequest) (*pillionv1.ListAlarmsResponse, error) {
	all, filter := s.seen(ctx), ""
	if request.GetActive() {
		filter = "active"
		active := all[:0]
		for _, a := range all {
			if a.Active() {
				active = append(active, a)
			}
		}
		all = active
	}
	page, next, err := pageOf(request, filter, all, func(a alarm.Alarm) string { return a.ID })
	if err != nil {
		return nil, err
	}
	response := &pillionv1.ListAlarmsResponse{NextPageToken: next}
	for i := range page {
		response.Alarms = append(response.Alarms, alarmMessage(&page[i]))
	}
	return response, nil
}

// seen are the alarms in the scope of the caller. Summaries of changed paths name the hosts on them, acknowledgements
// are between operators, and sites are labels of agents.
func (s *alarms) seen(ctx context.Context) []alarm.Alarm {
	all, scope := s.alarms.Alarms(), scopeOf(ctx)
	if scope == nil {
		return all
	}
	of := map[string]string{}
	for _, r := range s.alarms.AllRules() {
		of[r.Name] = r.On
	}
	kept := []alarm.Alarm{}
	for _, a := range all {
		if a.Agent == "" && !scope.HasPair(a.Source, a.Destination) || a.Agent != "" && !scope.HasAgent(a.Agent) {
			continue
		}
		if on, known := of[a.Rule]; !known || on == alarm.Path {
			a.Summary, a.Ending, a.Annotations = "", "", nil
		}
		a.Acknowledged, a.SilencedBy = nil, nil
		a.HideSites(func(agent string) bool { return !scope.HasAgent(agent) })
		kept = append(kept, a)
	}
	return kept
}

// AcknowledgeAlarm acknowledges an alarm.
func (s *alarms) AcknowledgeAlarm(ctx context.Context, request *pillionv1.AcknowledgeAlarmRequest) (*pillionv1.AcknowledgeAlarmResponse, error) {
	err := s.alarms.Acknowledge(ctx, request.GetId(), callerOf(ctx).token, request.GetComment(), request.GetWithdraw())
	return &pillionv1.AcknowledgeAlarmResponse{}, err
}

// ListAlarmRules returns the rules; within a scope, the rules of its alarms.
func (s *alarms) ListAlarmRules(ctx context.Context, _ *pillionv1.ListAlarmRulesRequest) (*pillionv1.ListAlarmRulesResponse, error) {
	response := &pillionv1.ListAlarmRulesResponse{}
	scoped, seen := scopeOf(ctx) != nil, s.seen(ctx)
	for _, r := range s.alarms.AllRules() {
		if scoped && !slices.ContainsFunc(seen, func(a alarm.Alarm) bool { return a.Rule == r.Name }) {
			continue
		}
		response.Rules = append(response.Rules, &pillionv1.AlarmRule{
			Name: r.Name, On: r.On, Above: r.Above, OverNs: int64(r.Over), Packets: r.Packets, ForNs: int64(r.For),
			KeepFiringForNs: int64(r.KeepFiringFor), Severity: r.Severity, Disabled: r.Disabled,
		})
	}
	return response, nil
}

// ListSilences returns silences. They name labels of any alarms: within a scope there are none.
func (s *alarms) ListSilences(ctx context.Context, _ *pillionv1.ListSilencesRequest) (*pillionv1.ListSilencesResponse, error) {
	response := &pillionv1.ListSilencesResponse{}
	if scopeOf(ctx) != nil {
		return response, nil
	}
	for _, silence := range s.alarms.Silences() {
		response.Silences = append(response.Silences, silenceMessage(&silence))
	}
	return response, nil
}

// CreateSilence creates a silence.
func (s *alarms) CreateSilence(ctx context.Context, request *pillionv1.CreateSilenceRequest) (*pillionv1.CreateSilenceResponse, error) {
	silence, err := s.alarms.Silence(ctx, request.GetMatchers(), time.Duration(request.GetDurationNs()), callerOf(ctx).token, request.GetComment())
	if err != nil {
		return nil, err
	}
	return &pillionv1.CreateSilenceResponse{Silence: silenceMessage(&silence)}, nil
}

// ExpireSilence ends a silence.
func (s *alarms) ExpireSilence(ctx context.Context, request *pillionv1.ExpireSilenceRequest) (*pillionv1.ExpireSilenceResponse, error) {
	return &pillionv1.ExpireSilenceResponse{}, s.alarms.Expire(ctx, request.GetId())
}

func alarmMessage(a *alarm.Alarm) *pillionv1.Alarm {
	message := &pillionv1.Alarm{
		Id: a.ID, Rule: a.Rule, Labels: validTexts(a.Labels), Annotations: validTexts(a.Annotations), Summary: validText(a.Summary), Ending: validText(a.Ending),
		Began: timestamppb.New(a.Began), Ended: api.TimeMessage(a.Ended),
		Session: validText(a.Session), Source: validText(a.Source), Destination: validText(a.Destination), Agent: validText(a.Agent), SilencedBy: a.SilencedBy,
	}
	if by := a.Acknowledged; by != nil {
		message.Acknowledgement = &pillionv1.Acknowledgement{By: by.By, At: timestamppb.New(by.At), Comment: by.Comment}
	}
	return message
}

// validTexts makes texts of agents valid for messages.
func validTexts(texts map[string]string) map[string]string {
	valid := make(map[string]string, len(texts))
	for name, text := range texts {
		valid[name] = validText(text)
	}
	return valid
}

func silenceMessage(s *alarm.SilenceRecord) *pillionv1.Silence {
	return &pillionv1.Silence{
		Id: s.ID, Matchers: s.Matchers, By: s.By, Comment: s.Comment, Begins: timestamppb.New(s.Begins), Ends: timestamppb.New(s.Ends),
	}
}
