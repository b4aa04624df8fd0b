package kubernetes

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"pillion.dev/session"
)

// Watcher follows the pods of a node. All exported fields are required; Config is a result of Config.Complete.
type Watcher struct {
	Config Config
	// Node is the name of this node.
	Node string
	// Token reads the token of the API.
	Token func() ([]byte, error)
	// Changed is called with each set of changes.
	Changed func(changes []Name)
	Log     *slog.Logger

	names  names
	labels atomic.Pointer[map[string]string]
	// pause replaces the wait between requests in tests; nil outside of tests.
	pause func(ctx context.Context, wait time.Duration)
	// full and bad say that the log already has a warning about too many pods, and about an invalid pod.
	full, bad bool
}

const (
	// Pauses after consecutive failures double from pauseMin to pauseMax.
	pauseMin, pauseMax = time.Second, time.Minute
	// watchTime is the time after which the API ends a watch, which is then started again.
	watchTime = 5 * time.Minute
	// labelsEvery is how often labels of the node are read.
	labelsEvery = 5 * time.Minute
	// pagesMax bounds the pages of a list of pods.
	pagesMax = 4 * podsMax / pageSize
)

// Names returns the known addresses of pods of the node, sorted by address.
func (w *Watcher) Names() []Name { return w.names.all() }

// NodeLabels returns the labels in Config.NodeLabels that the node had at the last successful request.
func (w *Watcher) NodeLabels() map[string]string {
	if labels := w.labels.Load(); labels != nil {
		return maps.Clone(*labels)
	}
	return nil
}

// Run follows the pods and labels until the context ends. Failures are logged, and followed by
// attempts at increasing intervals; known addresses and labels are kept meanwhile.
func (w *Watcher) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if len(w.Config.NodeLabels) > 0 {
			w.repeat(ctx, "read labels of the node", w.followLabels)
		}
	}()
	w.repeat(ctx, "watch pods", w.followPods)
	<-done
}

// repeat calls follow, which only returns when it fails, until the context ends.
func (w *Watcher) repeat(ctx context.Context, what string, follow func(context.Context, *client) error) {
	for wait := pauseMin; ctx.Err() == nil; wait = min(2*wait, pauseMax) {
		began := time.Now()
		c, err := connect(w.Config, w.Token)
		if err == nil {
			err = follow(ctx, c)
			c.close()
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > pauseMax {
			wait = pauseMin
		}
		log := w.Log.Warn
		if errors.Is(err, errGone) { // the resource version is too old, such as after a node was suspended
			log = w.Log.Debug
		}
		log(what, "node", w.Node, "error", err, "retry_in", wait)
		w.rest(ctx, wait)
	}
}

// rest waits for a random time between half of wait and wait.
func (w *Watcher) rest(ctx context.Context, wait time.Duration) {
	if w.pause != nil {
		w.pause(ctx, wait)
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait/2 + rand.N(wait/2)):
	}
}

func (w *Watcher) followLabels(ctx context.Context, c *client) error {
	for {
		var n node
		if err := c.get(ctx, "/api/v1/nodes/"+w.Node, nil, &n); err != nil {
			return err
		}
		labels := map[string]string{}
		for _, key := range w.Config.NodeLabels {
			if value, has := n.Metadata.Labels[key]; has && session.ValidLabel(key, value) {
				labels[key] = value
			}
		}
		w.labels.Store(&labels)
		w.rest(ctx, labelsEvery)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// followPods lists the pods, and then watches them.
func (w *Watcher) followPods(ctx context.Context, c *client) error {
	version, err := w.list(ctx, c)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for {
		if version, err = w.watch(ctx, c, version); err != nil {
			return err
		}
		w.rest(ctx, pauseMin)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// selection selects the pods of the node.
func (w *Watcher) selection() url.Values {
	return url.Values{"fieldSelector": {"spec.nodeName=" + w.Node}}
}

// list reads all pods, and returns the resource version from which they are watched.
func (w *Watcher) list(ctx context.Context, c *client) (version string, err error) {
	query, pods := w.selection(), []pod{}
	query.Set("limit", strconv.Itoa(pageSize))
	for range pagesMax {
		var p page
		if err := c.get(ctx, "/api/v1/pods", query, &p); err != nil {
			return "", err
		}
		for i := range p.Items {
			if one, valid := w.podOf(&p.Items[i]); valid {
				pods = append(pods, one)
			}
		}
		if version = p.Metadata.ResourceVersion; version == "" {
			return "", errors.New("the answer has no resource version")
		}
		if p.Metadata.Continue == "" {
			w.report(w.names.replace(pods))
			return version, nil
		}
		query.Set("continue", p.Metadata.Continue)
	}
	return "", fmt.Errorf("more than %d pods on one node", pagesMax*pageSize)
}

// watch follows the pods until the API ends the watch, and returns the last resource version.
func (w *Watcher) watch(ctx context.Context, c *client, version string) (string, error) {
	query := w.selection()
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", version)
	query.Set("timeoutSeconds", strconv.Itoa(int(watchTime/time.Second)))
	ctx, cancel := context.WithTimeout(ctx, watchTime+answerTime)
	defer cancel()
	body, err := c.open(ctx, "/api/v1/pods", query)
	if err != nil {
		return version, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, eventMax)
	for lines.Scan() {
		e, err := parseEvent(lines.Bytes())
		if err != nil {
			return version, err
		}
		if e.kind == failed {
			return version, failure(e.status.Code, e.status.Message)
		}
		w.take(&e)
		version = cmp.Or(e.object.Metadata.ResourceVersion, version)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return version, fmt.Errorf("an event of more than %d MiB", eventMax>>20)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return version, err
	}
	return version, nil
}

// take applies an event.
func (w *Watcher) take(e *event) {
	switch e.kind {
	case added, modified:
		if p, valid := w.podOf(&e.object); valid {
			w.report(w.names.set(p))
		}
	case deleted:
		w.report(w.names.remove(Pod{e.object.Metadata.Namespace, e.object.Metadata.Name}))
	case bookmark: // has only a resource version
	}
}

// podOf reads a pod and logs the first one that is invalid.
func (w *Watcher) podOf(o *object) (pod, bool) {
	p, err := podOf(o, w.Node)
	if err != nil && !w.bad {
		w.Log.Warn("read pod", "error", err)
		w.bad = true
	}
	return p, err == nil
}

// report passes changes to Changed, and logs once that there are too many pods.
func (w *Watcher) report(changes []Name) {
	if beyond := w.names.beyond(); beyond > 0 && !w.full {
		w.Log.Warn("too many pods: those beyond the limit are not named", "limit", podsMax, "beyond", beyond)
		w.full = true
	}
	if len(changes) > 0 {
		w.Changed(changes)
	}
}
