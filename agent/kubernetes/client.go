package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	// pageSize is the number of pods in one response; pageMax bounds a response, bytes. The API stores no object of
	// more than 1.5 MiB.
	pageSize = 50
	pageMax  = 32 << 20
	// eventMax bounds an event of a watch, bytes.
	eventMax = 4 << 20
	// statusMax is how much is read of the response to a request that fails, bytes.
	statusMax = 4 << 10
	// answerTime bounds a request other than a watch.
	answerTime = 30 * time.Second
	// pingAfter is how long the connection of a watch may be silent before it is checked.
	pingAfter = 30 * time.Second
)

// errGone marks a resource version that the API no longer has: pods have to be listed again.
var errGone = errors.New("resource version is too old")

// client makes requests to the API.
type client struct {
	api   string
	token func() ([]byte, error)
	http  *http.Client
}

// connect returns a client that trusts the current certificates of the cluster's certificate authority.
func connect(config Config, token func() ([]byte, error)) (*client, error) {
	text, err := os.ReadFile(config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read certificates of the Kubernetes API: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read certificates of the Kubernetes API: %s has none in PEM", config.CAFile)
	}
	return &client{api: config.API, token: token, http: &http.Client{
		// Without a proxy: the API is in the network of the node. Redirects would take the token elsewhere.
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true, TLSHandshakeTimeout: answerTime, ResponseHeaderTimeout: answerTime,
			HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: answerTime},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// open makes a request; the caller closes the body.
func (c *client) open(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	address := c.api + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	if token = bytes.TrimSpace(token); len(token) == 0 || bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token file has no token")
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pillion-agent")
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, statusMax))
		var said status
		_ = json.Unmarshal(text, &said)
		return nil, failure(answer.StatusCode, said.Message)
	}
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, errors.Join(fmt.Errorf("the answer is %.70q, not JSON", answer.Header.Get("Content-Type")), answer.Body.Close())
	}
	return answer.Body, nil
}

// failure is the error of a response or event with a status code.
func failure(code int, message string) error {
	err := fmt.Errorf("status %d: %.300q", code, message)
	if code == http.StatusGone {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}

// get reads one answer.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	body, err := c.open(ctx, path, query)
	if err != nil {
		return err
	}
	defer body.Close()
	limited := &io.LimitedReader{R: body, N: pageMax}
	err = json.NewDecoder(limited).Decode(into)
	if limited.N <= 0 {
		return fmt.Errorf("an answer of more than %d MiB", pageMax>>20)
	}
	return err
}
