package notify

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/server/alarm"
)

// mailServer is an SMTP server for one message.
type mailServer struct {
	net.Listener
	secure   *tls.Config // nil: it does not offer STARTTLS
	password string
	refuse   string // the reply to a recipient; empty: accept
	text     chan string
}

func newMailServer(t *testing.T, offersTLS bool) (*mailServer, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{Listener: listener, text: make(chan string, 1)}
	if offersTLS {
		s.secure = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.talk(conn, false)
			conn.Close()
		}
	}()
	return s, ca
}

// talk speaks SMTP until the client quits.
func (s *mailServer) talk(conn net.Conn, encrypted bool) {
	in := bufio.NewReader(conn)
	say := func(format string, a ...any) { fmt.Fprintf(conn, format+"\r\n", a...) }
	if !encrypted {
		say("220 test")
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.Fields(line + " x")[0]); verb {
		case "EHLO":
			if s.secure != nil && !encrypted {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			if s.secure == nil {
				say("502 no")
				continue
			}
			say("220 go ahead")
			s.talk(tls.Server(conn, s.secure), true)
			return
		case "AUTH":
			text, _ := base64.StdEncoding.DecodeString(strings.Fields(line)[2])
			if !encrypted || string(text) != "\x00pillion\x00"+s.password {
				say("535 wrong")
				continue
			}
			say("235 ok")
		case "RCPT":
			if s.refuse != "" {
				say("%s", s.refuse)
				continue
			}
			say("250 ok")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for line, err = in.ReadString('\n'); err == nil && line != ".\r\n"; line, err = in.ReadString('\n') {
				text.WriteString(line)
			}
			s.text <- text.String()
			say("250 ok")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func mailOf(t *testing.T) *Message {
	t.Helper()
	receivers, err := Complete([]Receiver{{Name: "mail", Webhook: Webhook{URL: "http://h/"}}})
	if err != nil {
		t.Fatal(err)
	}
	n := New(Options{Receivers: receivers, Alarms: newSource(), URL: "https://noc.example"})
	a := lossOf("a")
	a.Labels["team"] = "nétz\r\nBcc: eve@example.org"
	return n.message(n.out[0], &members{group: &group{key: "{}"}, firing: []alarm.Alarm{a}, ended: []alarm.Alarm{ended(lossOf("c"))}})
}

// TestEmail: the message arrives encrypted and authenticated, and no label can add a header.
func TestEmail(t *testing.T) {
	s, ca := newMailServer(t, true)
	s.password = "s3cret"
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := Email{
		To: []string{"NOC <noc@example.org>", "ann@example.org"}, From: "Pillion <pillion@example.org>", Server: s.Addr().String(),
		User: "pillion", PasswordFile: password, TLS: startTLS, CA: ca,
	}
	if err := e.send(t.Context(), mailOf(t), nil); err != nil {
		t.Fatal(err)
	}
	got, err := mail.ReadMessage(strings.NewReader(<-s.text))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	body, failed := io.ReadAll(quotedprintable.NewReader(got.Body))
	if err = errors.Join(err, failed); err != nil || subject != "[FIRING:1] loss" || got.Header.Get("Bcc") != "" || len(got.Header["To"]) != 1 {
		t.Errorf("subject %q, header %v, %v", subject, got.Header, err)
	}
	for _, want := range []string{"firing: a > z lost packets", "resolved: c > z lost packets", "loss is over", "team=nétz", "id " + lossOf("a").ID, "https://noc.example/#/alarms"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the body lacks %q:\n%s", want, body)
		}
	}
	s.password = "another"
	if err := e.send(t.Context(), mailOf(t), nil); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// TestEmailRefused: what is refused for good is not repeated, and nothing is sent without TLS that is required.
func TestEmailRefused(t *testing.T) {
	s, ca := newMailServer(t, true)
	e := Email{To: []string{"noc@example.org"}, From: "pillion@example.org", Server: s.Addr().String(), TLS: startTLS, CA: ca}
	for reply, permanent := range map[string]bool{"550 unknown": true, "450 later": false} {
		s.refuse = reply
		if err := e.send(t.Context(), mailOf(t), nil); err == nil || errors.Is(err, errPermanent) != permanent {
			t.Errorf("%s: %v", reply, err)
		}
	}
	e.CA = ""
	if err := e.send(t.Context(), mailOf(t), nil); err == nil {
		t.Error("sent to a server with a certificate of an unknown authority")
	}
	plain, _ := newMailServer(t, false)
	e.Server = plain.Addr().String()
	if err := e.send(t.Context(), mailOf(t), nil); err == nil {
		t.Error("sent without TLS, which is required")
	}
	e.TLS = noTLS
	if err := e.send(t.Context(), mailOf(t), nil); err != nil {
		t.Error(err)
	}
}
