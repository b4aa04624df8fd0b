package notify

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"time"

	"pillion.dev/server/alarm"
	"pillion.dev/server/outbound"
)

// Receiver is who is notified, of which alarms and how often. Complete fills in the defaults.
type Receiver struct {
	// Name of the receiver.
	Name string `yaml:"name"`
	// Match are matchers that all have to match the labels of an alarm; none: all alarms.
	Match []string `yaml:"match"`
	// GroupBy are the labels whose values are equal in a notification; default source, destination and agent.
	GroupBy []string `yaml:"group_by"`
	// GroupWait is the wait before the first notification of a group, GroupInterval the shortest time between two of
	// them, RepeatInterval the time after which a notification is repeated.
	GroupWait      time.Duration `yaml:"group_wait"`
	GroupInterval  time.Duration `yaml:"group_interval"`
	RepeatInterval time.Duration `yaml:"repeat_interval"`
	// SendResolved: the end of alarms is notified, too; default true.
	SendResolved *bool `yaml:"send_resolved"`
	// Webhook or Email is how.
	Webhook Webhook `yaml:"webhook"`
	Email   Email   `yaml:"email"`

	matchers alarm.Matchers `yaml:"-"`
}

// Webhook takes notifications in the format of Alertmanager's webhooks, version 4.
type Webhook struct {
	// URL to which they are posted.
	URL string `yaml:"url"`
	// TokenFile is a file with the bearer token that is presented.
	TokenFile string `yaml:"token_file"`
	// CA is a file with the certificates of authorities; default the system's.
	CA string `yaml:"ca"`
}

// Email is sent by SMTP.
type Email struct {
	// To and From are addresses.
	To   []string `yaml:"to"`
	From string   `yaml:"from"`
	// Server is the SMTP server, with a port.
	Server string `yaml:"server"`
	// User and PasswordFile authenticate this server.
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"`
	// TLS is starttls (default), tls from the beginning, or none.
	TLS string `yaml:"tls"`
	// CA is a file with the certificates of authorities; default the system's.
	CA string `yaml:"ca"`
}

// Kinds of TLS.
const (
	startTLS = "starttls"
	wholeTLS = "tls"
	noTLS    = "none"
)

// ErrReceiver marks an invalid receiver.
var ErrReceiver = errors.New("invalid receiver")

// Defaults and bounds of receivers.
const (
	usualWait     = time.Second
	usualInterval = 10 * time.Second
	usualRepeat   = 4 * time.Hour
	leastInterval = time.Second
	leastRepeat   = time.Minute
	mostInterval  = 30 * 24 * time.Hour
	receiversMost = 50
	addressesMost = 50
)

// Complete fills in the defaults of receivers and validates them.
func Complete(receivers []Receiver) ([]Receiver, error) {
	if len(receivers) > receiversMost {
		return nil, fmt.Errorf("%w: %d receivers, limit %d", ErrReceiver, len(receivers), receiversMost)
	}
	receivers = slices.Clone(receivers)
	var faults []error
	for i := range receivers {
		r := &receivers[i]
		if slices.ContainsFunc(receivers[:i], func(o Receiver) bool { return o.Name == r.Name }) {
			faults = append(faults, fmt.Errorf("%w: two receivers are named %q", ErrReceiver, r.Name))
		}
		if err := alarm.CheckName(r.Name); err != nil {
			faults = append(faults, fmt.Errorf("%w: %w", ErrReceiver, err))
		} else if err := r.complete(); err != nil {
			faults = append(faults, fmt.Errorf("receiver %q: %w", r.Name, err))
		}
	}
	return receivers, errors.Join(faults...)
}

func (r *Receiver) complete() (err error) {
	if r.matchers, err = alarm.ParseMatchers(r.Match); err != nil {
		return fmt.Errorf("%w: match: %w", ErrReceiver, err)
	}
	if r.GroupBy == nil {
		r.GroupBy = []string{"source", "destination", "agent"}
	}
	if r.SendResolved == nil {
		usual := true
		r.SendResolved = &usual
	}
	r.GroupWait, r.GroupInterval, r.RepeatInterval = cmp.Or(r.GroupWait, usualWait), cmp.Or(r.GroupInterval, usualInterval), cmp.Or(r.RepeatInterval, usualRepeat)
	switch {
	case r.GroupWait < 0 || r.GroupWait > time.Hour:
		return fmt.Errorf("%w: group_wait %v, want at most 1h", ErrReceiver, r.GroupWait)
	case r.GroupInterval < leastInterval || r.GroupInterval > mostInterval:
		return fmt.Errorf("%w: group_interval %v, want 1s to 30d", ErrReceiver, r.GroupInterval)
	case r.RepeatInterval < leastRepeat || r.RepeatInterval > mostInterval:
		return fmt.Errorf("%w: repeat_interval %v, want 1m to 30d", ErrReceiver, r.RepeatInterval)
	case (r.Webhook.URL == "") == (r.Email.Server == ""):
		return fmt.Errorf("%w: give either webhook with a url or email with a server", ErrReceiver)
	case r.Webhook.URL != "":
		return r.Webhook.check()
	}
	return r.Email.complete()
}

func (w *Webhook) check() error {
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%w: webhook: url: use http://HOST/PATH or https://HOST/PATH", ErrReceiver) // it may have secrets
	}
	if w.TokenFile != "" || u.User != nil {
		if err := outbound.CheckSecret(u); err != nil {
			return fmt.Errorf("%w: webhook: token_file, or a password in url: %w: use https", ErrReceiver, err)
		}
	}
	return nil
}

func (e *Email) complete() error {
	e.TLS = cmp.Or(e.TLS, startTLS)
	if host, port, err := net.SplitHostPort(e.Server); err != nil || host == "" || port == "" {
		return fmt.Errorf("%w: email: server %q: use HOST:PORT", ErrReceiver, e.Server)
	}
	if len(e.To) == 0 || len(e.To) > addressesMost {
		return fmt.Errorf("%w: email: to: %d addresses, want 1 to %d", ErrReceiver, len(e.To), addressesMost)
	}
	for _, text := range append([]string{e.From}, e.To...) {
		if _, err := mail.ParseAddress(text); err != nil {
			return fmt.Errorf("%w: email: %q is not an address: %w", ErrReceiver, text, err)
		}
	}
	switch {
	case !slices.Contains([]string{startTLS, wholeTLS, noTLS}, e.TLS):
		return fmt.Errorf("%w: email: tls %q: use starttls, tls or none", ErrReceiver, e.TLS)
	case (e.User == "") != (e.PasswordFile == ""):
		return fmt.Errorf("%w: email: user and password_file belong together", ErrReceiver)
	case e.User != "" && e.TLS == noTLS:
		return fmt.Errorf("%w: email: a password requires tls", ErrReceiver)
	}
	return nil
}
