package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"pillion.dev/server/outbound"
)

// answerMost bounds what is read of an answer, bytes.
const answerMost = 4096

// send posts a message.
func (w *Webhook) send(ctx context.Context, m *Message, to outbound.Addresses) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write notification: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post notification: %w", outbound.WithoutURL(err))
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
	settings, err := outbound.TLS(w.CA)
	if err != nil {
		return err
	}
	response, err := to.Client(&http.Transport{TLSClientConfig: settings, DisableKeepAlives: true}).Do(request)
	if err != nil {
		return fmt.Errorf("post notification: %w", outbound.WithoutURL(err))
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, answerMost))
	switch code := response.StatusCode; {
	case code < 300:
		return nil
	case code < 400:
		return fmt.Errorf("post notification: %w with a redirect, status %s, which is not followed", errPermanent, response.Status)
	case code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout:
		return fmt.Errorf("post notification: %w with status %s", errPermanent, response.Status)
	default:
		return fmt.Errorf("post notification: status %s", response.Status)
	}
}

// secret reads a file with a secret, which may have been replaced since the last time.
func secret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
