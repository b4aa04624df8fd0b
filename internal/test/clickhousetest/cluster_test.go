package clickhousetest

import "testing"

func TestCluster(t *testing.T) {
	c := StartCluster(t, 2, 2)
	c.Nodes[0][1].Restart()
	c.Coordination.Restart()
	t.Log(c.URL("x"))
}
