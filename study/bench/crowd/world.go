package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// world is the simulated network: hosts at routers, links between routers, each with
// a length and, at times, a queue. It is safe for concurrent use.
type world struct {
	mu      sync.RWMutex
	random  *rand.Rand
	routers []router
	links   map[[2]int]*link
	// next is the next hop of the first router on the best way to the second; -1: none.
	next [][]int
	// down is the link that is currently down, if any.
	down [2]int
}

type router struct {
	x, y    float64 // ms of light in fibre
	address netip.Addr
	silent  bool // does not answer traces
}

// link leads in one direction.
type link struct {
	delay time.Duration
	// queue is its mean queueing delay, loss the share that it drops.
	queue time.Duration
	loss  float64
	until time.Time // when its load ends
}

// way is the path of packets between two hosts.
type way struct {
	routers []int
	delays  []time.Duration // from the source to each of them, without queues
	delay   time.Duration   // to the destination
	queue   time.Duration
	loss    float64
}

func newWorld(s settings) *world {
	w := &world{random: rand.New(rand.NewPCG(s.seed, 7)), links: map[[2]int]*link{}, down: [2]int{-1, -1}}
	for n := range s.routers {
		w.routers = append(w.routers, router{
			x: w.random.Float64() * 30, y: w.random.Float64() * 12,
			address: netip.AddrFrom4([4]byte{10, 255, byte(n / 250), byte(1 + n%250)}), silent: n%9 == 5,
		})
		for _, other := range w.nearest(n, 2) {
			w.join(n, other)
		}
	}
	w.route()
	return w
}

// nearest returns the routers before the n-th that are nearest to it.
func (w *world) nearest(n, count int) []int {
	var found []int
	for len(found) < min(count, n) {
		best, length := -1, math.Inf(1)
		for other := range n {
			if d := w.distance(n, other); d < length && !contains(found, other) {
				best, length = other, d
			}
		}
		found = append(found, best)
	}
	return found
}

func contains(list []int, n int) bool {
	for _, m := range list {
		if m == n {
			return true
		}
	}
	return false
}

func (w *world) distance(a, b int) float64 {
	return math.Hypot(w.routers[a].x-w.routers[b].x, w.routers[a].y-w.routers[b].y)
}

// join adds both directions, which differ slightly.
func (w *world) join(a, b int) {
	for _, ends := range [][2]int{{a, b}, {b, a}} {
		ms := 0.05 + w.distance(a, b)*(1+0.1*w.random.Float64())
		w.links[ends] = &link{delay: time.Duration(ms * float64(time.Millisecond))}
	}
}

// route finds the shortest ways (Floyd-Warshall).
func (w *world) route() {
	n := len(w.routers)
	length := make([][]float64, n)
	w.next = make([][]int, n)
	for i := range n {
		length[i], w.next[i] = make([]float64, n), make([]int, n)
		for j := range n {
			length[i][j], w.next[i][j] = math.Inf(1), -1
			if l := w.links[[2]int{i, j}]; l != nil && w.down != [2]int{i, j} && w.down != [2]int{j, i} {
				length[i][j], w.next[i][j] = l.delay.Seconds(), j
			}
		}
		length[i][i] = 0
	}
	for via := range n {
		for i := range n {
			for j := range n {
				if d := length[i][via] + length[via][j]; d < length[i][j] {
					length[i][j], w.next[i][j] = d, w.next[i][via]
				}
			}
		}
	}
}

// between returns the way from one host to another.
func (w *world) between(a, b *place) way {
	w.mu.RLock()
	defer w.mu.RUnlock()
	result := way{delay: a.access, loss: a.loss + b.loss}
	arrive := func(r int) {
		result.routers, result.delays = append(result.routers, r), append(result.delays, result.delay)
	}
	at := a.router
	arrive(at)
	for at != b.router {
		next := w.next[at][b.router]
		if next < 0 {
			break // unreachable: a link is taken down only if another way remains
		}
		l := w.links[[2]int{at, next}]
		result.delay, result.queue = result.delay+l.delay, result.queue+l.queue
		result.loss += l.loss
		at = next
		arrive(at)
	}
	result.delay += b.access
	return result
}

// Times between changes of the network.
const (
	weatherEvery = time.Second
	routeFirst   = 90 * time.Second
	routeEvery   = 4 * time.Minute
)

// weather adds and removes load on links, and changes routes at times.
func (w *world) weather(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.links {
		switch {
		case now.Before(l.until):
			l.queue += time.Duration((w.random.Float64() - 0.5) * float64(l.queue) / 4)
		case !l.until.IsZero():
			l.queue, l.loss, l.until = 0, 0, time.Time{}
		case w.random.Float64() < 0.0008:
			l.queue = time.Duration((2 + 12*w.random.ExpFloat64()) * float64(time.Millisecond))
			l.loss = 0.002 + 0.02*w.random.Float64()
			l.until = now.Add(time.Duration(15+w.random.IntN(45)) * time.Second)
		}
	}
}

// reroute takes a link down, or up again, and describes it.
func (w *world) reroute() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down[0] >= 0 {
		text := fmt.Sprintf("link between %s and %s is back", w.routers[w.down[0]].address, w.routers[w.down[1]].address)
		w.down = [2]int{-1, -1}
		w.route()
		return text
	}
	for range 20 {
		a := w.random.IntN(len(w.routers))
		for _, b := range w.random.Perm(len(w.routers)) {
			if w.links[[2]int{a, b}] == nil {
				continue
			}
			w.down = [2]int{a, b}
			w.route()
			if w.next[a][b] >= 0 {
				return fmt.Sprintf("link between %s and %s is down", w.routers[a].address, w.routers[b].address)
			}
		}
	}
	w.down = [2]int{-1, -1}
	w.route()
	return "no link can be spared"
}

// place is the position of a host in the network.
type place struct {
	router  int
	access  time.Duration
	loss    float64
	address netip.Addr
}

// place returns the position of the n-th host: most are at routers that were added late, at the edge.
func (w *world) place(n int) place {
	r := (n*7 + n/len(w.routers)) % len(w.routers)
	p := place{
		router: r, access: time.Duration((0.05 + 0.4*w.random.ExpFloat64()) * float64(time.Millisecond)),
		address: netip.AddrFrom4([4]byte{10, 80, byte(n / 250), byte(1 + n%250)}),
	}
	if n%37 == 11 {
		p.loss = 0.004 // a faulty cable
	}
	return p
}
