package receiver

import (
	"net"
	"net/http"
	"net/smtp"
	"strings"
	"testing"
	"time"
)

// TestReceivers: both kinds of notification are received, with the rule that they are about.
func TestReceivers(t *testing.T) {
	for _, test := range []struct {
		name  string
		serve func(*Receiver, net.Listener)
		send  func(address string) error
	}{
		{"webhook", (*Receiver).ServeWebhooks, func(address string) error {
			answer, err := http.Post("http://"+address, "application/json", strings.NewReader(`{"alerts": [{"status": "resolved", "labels": {"alertname": "path"}}, {"status": "firing", "labels": {"alertname": "loss"}}]}`))
			if err == nil {
				answer.Body.Close()
			}
			return err
		}},
		{"mail", (*Receiver).ServeMail, func(address string) error {
			return smtp.SendMail(address, nil, "pillion@example.org", []string{"noc@example.org"}, []byte("Subject: [FIRING:1] loss\r\n\r\nfiring: much\r\n  alertname=loss\r\n"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			s := New()
			go test.serve(s, listener)
			for range 2 { // the second is not awaited
				if err := test.send(listener.Addr().String()); err != nil {
					t.Fatal(err)
				}
			}
			<-s.of("loss")
			if len(s.of("path")) != 0 {
				t.Error("an alarm that has ended is taken for one that has begun")
			}
		})
	}
}

// TestReadMail: quoted-printable encodes the equals sign.
func TestReadMail(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"  alertname=3Dloss\n  severity=3Dwarning\n", "loss"},
		{"  alertname=3Dflow-silence\n", "flow-silence"},
		{"Subject: [FIRING:1] path\n", ""},
	} {
		s := New()
		s.readMail(test.text, time.Now())
		if test.want != "" && len(s.of(test.want)) != 1 || test.want == "" && len(s.first) != 0 {
			t.Errorf("%q: %v", test.text, s.first)
		}
	}
}
