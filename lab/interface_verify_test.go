//go:build verify

package lab_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/figure"
	"pillion.dev/lab"
)

// interfaceChange is what happens to the link of a and b while packets are on it.
type interfaceChange struct {
	name string
	// size of the data of a ping.
	size int
	// even and odd are commands of ip, in even and odd repetitions: the second undo the first.
	even, odd []onHost
}

// onHost is commands of ip on a host. A and B are addresses of both ends, NAMESPACE is the namespace of b.
type onHost struct{ host, lines string }

var interfaceChanges = []interfaceChange{
	{"renamed", 56, []onHost{{"a", "link set dev b name wan0"}}, []onHost{{"a", "link set wan0 name b"}}},
	{"of another MTU", 1372,
		[]onHost{{"a", "link set dev b mtu 1400"}, {"b", "link set dev a mtu 1400"}},
		[]onHost{{"a", "link set dev b mtu 1500"}, {"b", "link set dev a mtu 1500"}}},
	{"removed and made anew", 56, anew, anew},
}

var anew = []onHost{
	{"a", "link del dev b\nlink add name b type veth peer name a netns NAMESPACE\naddress add A dev b\nlink set dev b up"},
	{"b", "address add B dev a\nlink set dev a up"},
}

const (
	changeTimes = 20
	changePings = 300 // in 3 s
)

// TestVerifyInterfaceChanges: how many packets of an application are lost while an interface below a session
// changes, compared with a lab that has no session. Repetitions of both alternate.
func TestVerifyInterfaceChanges(t *testing.T) {
	marked, control := service(t, twoPlainHosts), service(t, twoPlainHosts)
	marked.running("s", "--from", "a", "--to", "b", "--both")
	for _, change := range interfaceChanges {
		var lost [2][]float64
		for i := range changeTimes {
			for side, b := range []*serviceBed{marked, control} {
				lost[side] = append(lost[side], b.lostWhile(change, i))
			}
		}
		difference, half := welch(lost[0], lost[1])
		t.Logf("%s: with a session %v, without %v: difference %.2f ± %.2f packets (95 %%)", change.name, lost[0], lost[1], difference, half)
		figure.AtMost(t, "interface "+change.name+", lost more than without a session (lower end of the 95 % interval)", max(0, difference-half), 0, "packets")
		figure.AtMost(t, "interface "+change.name+", lost more than without a session (mean)", max(0, difference), 1, "packets")
	}
}

// lostWhile pings in both directions while the interface changes, and returns how many answers did not come.
func (b *serviceBed) lostWhile(change interfaceChange, i int) float64 {
	b.t.Helper()
	ends := b.Spec.Links[0].Addresses
	from := map[string]lab.Prefix{"a": ends["a"][0], "b": ends["b"][0]}
	counted := make(chan float64, len(from))
	for host, to := range map[string]lab.Prefix{"a": from["b"], "b": from["a"]} {
		go func() { counted <- b.unanswered(host, to.Addr().String(), change.size) }()
	}
	time.Sleep(time.Second) // the change comes after a third of them
	steps := change.even
	if i%2 == 1 {
		steps = change.odd
	}
	values := strings.NewReplacer("NAMESPACE", "pl-"+b.Spec.Name+"-b", "A", from["a"].String(), "B", from["b"].String())
	for _, step := range steps {
		if err := netns.IP("pl-"+b.Spec.Name+"-"+step.host, strings.Split(values.Replace(step.lines), "\n")...); err != nil {
			b.t.Fatal(err)
		}
	}
	return <-counted + <-counted
}

var pingCounts = regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`)

// unanswered pings, and returns how many answers did not come.
func (b *serviceBed) unanswered(host, to string, size int) float64 {
	said, _ := b.Exec(b.t.Context(), host, "ping", "-q", "-i", "0.01", "-c", strconv.Itoa(changePings), "-W", "1", "-s", strconv.Itoa(size), to)
	counts := pingCounts.FindStringSubmatch(string(said))
	if counts == nil {
		b.t.Errorf("ping on %s: %s", host, said)
		return math.NaN()
	}
	sent, _ := strconv.Atoi(counts[1])
	received, _ := strconv.Atoi(counts[2])
	return float64(sent - received)
}

// welch returns the difference of two means and half of its 95 % interval (Welch 1947).
func welch(x, y []float64) (difference, half float64) {
	meanX, varianceX := stat.MeanVariance(x, nil)
	meanY, varianceY := stat.MeanVariance(y, nil)
	partX, partY := varianceX/float64(len(x)), varianceY/float64(len(y))
	if partX+partY == 0 {
		return meanX - meanY, 0
	}
	freedom := (partX + partY) * (partX + partY) / (partX*partX/float64(len(x)-1) + partY*partY/float64(len(y)-1))
	quantile := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(0.975)
	return meanX - meanY, quantile * math.Sqrt(partX+partY)
}
