package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// answerMost bounds what is read of an answer, bytes.
const answerMost = 4096

// send posts a message.
func (w *Webhook) send(ctx context.Context, m *Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write notification: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post notification: %w", withoutURL(err))
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pillion-server")
	if w.TokenFile != "" {
		token, err := secret(w.TokenFile)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	roots, err := authorities(w.CA)
	if err != nil {
		return err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("post notification: %w", withoutURL(err))
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, answerMost))
	switch code := response.StatusCode; {
	case code < 300:
		return nil
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout:
		return fmt.Errorf("post notification: %w with status %s", errPermanent, response.Status)
	default:
		return fmt.Errorf("post notification: status %s", response.Status)
	}
}

// withoutURL is the cause of an error of the client, whose URL may have secrets.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// secret reads a file with a secret, which may have been replaced since the last time.
func secret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// authorities reads a file with certificates; no file: nil, the system's.
func authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read authorities: no certificate in %s", path)
	}
	return pool, nil
}
