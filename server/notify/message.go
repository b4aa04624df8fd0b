package notify

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"pillion.dev/server/alarm"
)

// Message is a notification in the format of Alertmanager's webhooks.
type Message struct {
	Version  string `json:"version"`
	GroupKey string `json:"groupKey"`
	// TruncatedAlerts are those that did not fit.
	TruncatedAlerts   int               `json:"truncatedAlerts"`
	Status            string            `json:"status"`
	Receiver          string            `json:"receiver"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL,omitempty"`
	Alerts            []Alert           `json:"alerts"`

	firing []string // IDs of all active alarms of the group
}

// Alert is an alarm in a Message.
type Alert struct {
	Status       string            `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // the zero time while it is active
	GeneratorURL string            `json:"generatorURL,omitempty"`
	Fingerprint  string            `json:"fingerprint"`
}

// States of alerts and messages.
const (
	firing   = "firing"
	resolved = "resolved"
)

// message says what is true of a group.
func (n *Notifier) message(out *outlet, g *members) *Message {
	m := &Message{
		Version: "4", GroupKey: "{}/{receiver=" + strconv.Quote(out.Name) + "}:" + g.key, Status: resolved, Receiver: out.Name,
		GroupLabels: g.labels, ExternalURL: n.URL, Alerts: []Alert{},
	}
	if m.GroupLabels == nil {
		m.GroupLabels = map[string]string{}
	}
	for _, a := range g.firing {
		m.Status = firing
		m.firing = append(m.firing, a.ID)
		m.Alerts = append(m.Alerts, n.alert(&a))
	}
	slices.Sort(m.firing)
	if *out.SendResolved {
		for _, a := range g.ended {
			m.Alerts = append(m.Alerts, n.alert(&a))
		}
	}
	if len(m.Alerts) > alertsMost {
		m.TruncatedAlerts = len(m.Alerts) - alertsMost
		m.Alerts = m.Alerts[:alertsMost]
	}
	m.CommonLabels = common(m.Alerts, func(a *Alert) map[string]string { return a.Labels })
	m.CommonAnnotations = common(m.Alerts, func(a *Alert) map[string]string { return a.Annotations })
	return m
}

func (n *Notifier) alert(a *alarm.Alarm) Alert {
	alert := Alert{
		Status: firing, Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.Began, GeneratorURL: listURL(n.URL), Fingerprint: a.ID,
	}
	if !a.Active() {
		alert.Status, alert.EndsAt = resolved, a.Ended
		alert.Annotations = maps.Clone(a.Annotations)
		alert.Annotations["ending"] = a.Ending
	}
	if by := a.Acknowledged; by != nil {
		alert.Annotations = maps.Clone(alert.Annotations)
		alert.Annotations["acknowledged_by"] = by.By
	}
	return alert
}

// listURL is the address of the list of alarms on a page; empty if that is.
func listURL(page string) string {
	if page == "" {
		return ""
	}
	return page + "/#/alarms"
}

// common are the entries that all alerts have.
func common(alerts []Alert, of func(*Alert) map[string]string) map[string]string {
	all := map[string]string{}
	for i := range alerts {
		entries := of(&alerts[i])
		if i == 0 {
			maps.Copy(all, entries)
			continue
		}
		maps.DeleteFunc(all, func(name, value string) bool {
			other, has := entries[name]
			return !has || other != value
		})
	}
	return all
}
