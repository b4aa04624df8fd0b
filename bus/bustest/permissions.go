package bustest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pillion.dev/internal/test/root"
)

var (
	permissionsBlock = regexp.MustCompile("(?s)```\n(authorization .*?)```")
	agentPermissions = regexp.MustCompile(`(?s)  \{ user: "CN=north".*?\} \}\n`)
)

// documentedPermissions are those in the documentation, for these agents.
func documentedPermissions(t testing.TB, agents []string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root.Folder(t), "docs/howto/nats.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := permissionsBlock.FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/howto/nats.md shows no permissions")
	}
	shown := string(agentPermissions.Find(block[1]))
	if shown == "" {
		t.Fatal("docs/howto/nats.md shows no permissions of an agent")
	}
	var all strings.Builder
	for _, agent := range agents {
		all.WriteString(strings.ReplaceAll(shown, "north", agent))
	}
	return agentPermissions.ReplaceAllString(string(block[1]), all.String())
}
