package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"pillion.dev/server/outbound"
)

// send sends a message by SMTP.
func (e *Email) send(ctx context.Context, m *Message, to outbound.Addresses) error {
	text, err := e.text(m, time.Now())
	if err != nil {
		return fmt.Errorf("write e-mail: %w", err)
	}
	client, err := e.connect(ctx, to)
	if err != nil {
		return fmt.Errorf("connect to the SMTP server: %w", err)
	}
	defer client.Close()
	if err := e.deliver(client, text); err != nil {
		var refused *textproto.Error
		if errors.As(err, &refused) && refused.Code >= 500 {
			return fmt.Errorf("send e-mail: %w: %w", errPermanent, err)
		}
		return fmt.Errorf("send e-mail: %w", err)
	}
	return nil
}

// connect returns an authenticated connection.
func (e *Email) connect(ctx context.Context, to outbound.Addresses) (*smtp.Client, error) {
	host, _, err := net.SplitHostPort(e.Server)
	if err != nil {
		return nil, err
	}
	secure, err := outbound.TLS(e.CA)
	if err != nil {
		return nil, err
	}
	secure.ServerName = host
	conn, err := to.Dialer().DialContext(ctx, "tcp", e.Server)
	if err != nil {
		return nil, err
	}
	if until, has := ctx.Deadline(); has {
		if err := conn.SetDeadline(until); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	if e.TLS == wholeTLS {
		conn = tls.Client(conn, secure)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if e.TLS == startTLS {
		if err := client.StartTLS(secure); err != nil {
			return nil, errors.Join(fmt.Errorf("STARTTLS: %w", err), client.Close())
		}
	}
	if e.User != "" {
		password, err := secret(e.PasswordFile)
		if err == nil {
			err = client.Auth(smtp.PlainAuth("", e.User, password, host))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("authenticate: %w", err), client.Close())
		}
	}
	return client, nil
}

func (e *Email) deliver(client *smtp.Client, text []byte) error {
	from, err := mail.ParseAddress(e.From)
	if err != nil {
		return err
	}
	if err := client.Mail(from.Address); err != nil {
		return err
	}
	for _, to := range e.To {
		address, err := mail.ParseAddress(to)
		if err != nil {
			return err
		}
		if err := client.Rcpt(address.Address); err != nil {
			return err
		}
	}
	body, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := body.Write(text); err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		return err
	}
	return client.Quit()
}

// text is the e-mail.
func (e *Email) text(m *Message, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	_, domain, _ := strings.Cut(e.From, "@")
	for _, header := range [][2]string{
		{"From", e.From}, {"To", strings.Join(e.To, ", ")}, {"Subject", mime.QEncoding.Encode("utf-8", m.subject())},
		{"Date", now.Format(time.RFC1123Z)}, {"Message-ID", "<" + rand.Text() + "@" + strings.Trim(cmp.Or(domain, "localhost"), ">") + ">"},
		{"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
		{"Auto-Submitted", "auto-generated"},
	} {
		fmt.Fprintf(&out, "%s: %s\r\n", header[0], header[1])
	}
	out.WriteString("\r\n")
	body := quotedprintable.NewWriter(&out)
	if _, err := body.Write([]byte(m.plain())); err != nil {
		return nil, err
	}
	return out.Bytes(), body.Close()
}

// subject is one line: [FIRING:2] loss, slow (a > b).
func (m *Message) subject() string {
	n, names := 0, map[string]bool{}
	for _, a := range m.Alerts {
		names[a.Labels["alertname"]] = true
		if a.Status == m.Status {
			n++
		}
	}
	text := fmt.Sprintf("[%s:%d] %s", strings.ToUpper(m.Status), n, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	if source, destination := m.CommonLabels["source"], m.CommonLabels["destination"]; source != "" && destination != "" {
		text += " (" + source + " > " + destination + ")"
	} else if agent := m.CommonLabels["agent"]; agent != "" {
		text += " (" + agent + ")"
	}
	return text
}

// plain is the text for people.
func (m *Message) plain() string {
	var out strings.Builder
	for _, a := range m.Alerts {
		fmt.Fprintf(&out, "%s: %s\n", a.Status, a.Annotations["summary"])
		if a.Status == resolved {
			fmt.Fprintf(&out, "  %s\n", a.Annotations["ending"])
		}
		fmt.Fprintf(&out, "  since %s", a.StartsAt.UTC().Format(time.RFC3339))
		if a.Status == resolved {
			fmt.Fprintf(&out, " until %s", a.EndsAt.UTC().Format(time.RFC3339))
		}
		out.WriteString("\n")
		for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
			fmt.Fprintf(&out, "  %s=%s\n", name, a.Labels[name])
		}
		for _, name := range slices.Sorted(maps.Keys(a.Annotations)) {
			if name != "summary" && name != "ending" {
				fmt.Fprintf(&out, "  %s: %s\n", name, a.Annotations[name])
			}
		}
		fmt.Fprintf(&out, "  id %s\n\n", a.Fingerprint)
	}
	if m.TruncatedAlerts > 0 {
		fmt.Fprintf(&out, "%d more alarms are not listed.\n\n", m.TruncatedAlerts)
	}
	if m.ExternalURL != "" {
		fmt.Fprintln(&out, listURL(m.ExternalURL))
	}
	return out.String()
}
