// Package receiver has receivers of notifications, webhooks and e-mail, for tests and benchmarks of alarms. They
// keep when the first notification about each rule came, and not what it says.
package receiver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Receiver receives notifications, and keeps when the first about each rule came.
type Receiver struct {
	listener net.Listener
	mu       sync.Mutex
	first    map[string]chan time.Time
}

// New returns a receiver without notifications.
func New() *Receiver { return &Receiver{first: map[string]chan time.Time{}} }

// Of has the time of the first notification about a rule, once it has come.
func (s *Receiver) Of(rule string) <-chan time.Time { return s.of(rule) }

func (s *Receiver) of(rule string) chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first[rule] == nil {
		s.first[rule] = make(chan time.Time, 1)
	}
	return s.first[rule]
}

// heard notes the time of a notification.
func (s *Receiver) heard(rule string, at time.Time) {
	select {
	case s.of(rule) <- at:
	default: // it is not the first
	}
}

// Listen accepts connections on a port of the current network namespace.
func (s *Receiver) Listen(port int, serve func(net.Listener)) (err error) {
	if s.listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		return fmt.Errorf("receive notifications: %w", err)
	}
	go serve(s.listener)
	return nil
}

// Close ends Listen.
func (s *Receiver) Close() {
	if s.listener != nil {
		s.listener.Close()
	}
}

// ServeWebhooks takes messages in the format of Alertmanager.
func (s *Receiver) ServeWebhooks(listener net.Listener) {
	_ = http.Serve(listener, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		at := time.Now()
		var m struct {
			Alerts []struct {
				Status string
				Labels map[string]string
			}
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil {
			return
		}
		for _, a := range m.Alerts {
			if a.Status == "firing" {
				s.heard(a.Labels["alertname"], at)
			}
		}
	})) // until the listener is closed
}

// ServeMail takes e-mails by SMTP, without TLS.
func (s *Receiver) ServeMail(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go s.takeMail(conn)
	}
}

// alertName matches the label in the text of a mail, in which quoted-printable encodes the equals sign.
var alertName = regexp.MustCompile(`(?m)^ *alertname=(?:3D)?([A-Za-z][A-Za-z0-9_.-]*)`)

// takeMail speaks as much SMTP (RFC 5321) as a client needs that has one message.
func (s *Receiver) takeMail(conn net.Conn) {
	defer conn.Close()
	say := func(text string) { fmt.Fprintf(conn, "%s\r\n", text) }
	say("220 receiver")
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		switch command := strings.ToUpper(strings.Fields(lines.Text() + " -")[0]); command {
		case "DATA":
			say("354 end with a dot")
			var text strings.Builder
			for lines.Scan() && lines.Text() != "." {
				text.WriteString(lines.Text() + "\n")
			}
			s.readMail(text.String(), time.Now())
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// readMail notes the rules that a mail is about.
func (s *Receiver) readMail(text string, at time.Time) {
	for _, found := range alertName.FindAllStringSubmatch(text, -1) {
		s.heard(found[1], at)
	}
}
