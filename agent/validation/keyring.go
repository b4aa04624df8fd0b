package validation

import (
	"maps"
	"net/netip"
	"sync"

	"pillion.dev/wire"
)

// A Keyring has the keys by which this host seals its answers to path probes. Its zero value
// is empty, and so is nil.
type Keyring struct {
	mu    sync.RWMutex
	agent string
	keys  map[uint64]wire.ProbeKey
}

// Set replaces the keys, and the name of the agent on this host.
func (k *Keyring) Set(agent string, secrets [][]byte) {
	keys := map[uint64]wire.ProbeKey{}
	for _, secret := range secrets {
		key := wire.NewProbeKey(secret)
		keys[key.Number()] = key
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.agent != agent || !maps.EqualFunc(k.keys, keys, func(a, b wire.ProbeKey) bool { return a.Number() == b.Number() }) {
		k.agent, k.keys = agent, keys
	}
}

// seal appends a seal to the answer if the question has one that a key of this host made for
// its agent and the address that was asked.
func (k *Keyring) seal(answer, question []byte, address netip.Addr) (text []byte, sealed bool) {
	number := wire.SealNumber(question)
	if k == nil || number == 0 {
		return answer, false
	}
	k.mu.RLock()
	key, agent := k.keys[number], k.agent
	k.mu.RUnlock()
	if !key.Verify(question, address, agent) {
		return answer, false
	}
	return key.Seal(answer, address, agent), true
}
