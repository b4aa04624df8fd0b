package service

import (
	"context"
	"maps"
	"sync"
	"time"

	"pillion.dev/agent/kubernetes"
	"pillion.dev/measure"
)

// renameEvery is how often the names of all pods are sent again: a server that has started since does
// not know them.
const renameEvery = 10 * time.Minute

func (s *service) openPods() {
	if s.config.Kubernetes.Enabled {
		s.pods = &kubernetes.Watcher{Config: s.config.Kubernetes, Node: s.config.Node, Token: s.loader.Token, Changed: s.named, Log: s.log}
	}
}

// namePods names the pods of this node until the context ends.
func (s *service) namePods(ctx context.Context) {
	if s.pods == nil {
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { s.pods.Run(ctx) })
	ticks := time.NewTicker(renameEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		case <-s.rename:
		}
		s.naming.Lock()
		s.sendNames(s.pods.Names())
		s.naming.Unlock()
	}
}

// named takes what has changed. It waits for names that are being sent again: they are older.
func (s *service) named(changes []kubernetes.Name) {
	s.naming.Lock()
	defer s.naming.Unlock()
	s.sendNames(changes)
}

// sendNames adds rows to the point pods.
func (s *service) sendNames(names []kubernetes.Name) {
	now := time.Now()
	for _, name := range names {
		s.streams.inject(&measure.Pods, measure.Sample{
			measure.TimeValue(now), measure.StringValue(name.Address.String()), measure.StringValue(name.Pod.Namespace),
			measure.StringValue(name.Pod.Name), measure.StringValue(s.config.Node), measure.BoolValue(name.Held),
		})
	}
}

// labels are those that this agent claims: of its node, and in their place of its configuration.
func (s *service) labels() map[string]string {
	if s.pods == nil {
		return s.config.Labels
	}
	labels := map[string]string{}
	maps.Copy(labels, s.pods.NodeLabels())
	maps.Copy(labels, s.config.Labels)
	return labels
}
