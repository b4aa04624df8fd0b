package pillion

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token; its secret is shown only once."`
	List   tokenListCmd   `cmd:"" help:"List tokens, without their secrets."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token."`
}

type tokenCreateCmd struct {
	Name    string   `arg:"" help:"Name of the token."`
	Role    string   `default:"viewer" enum:"viewer,analyst,operator,admin,join" placeholder:"NAME" help:"Role: viewer, analyst, operator, admin, or join for hosts (${default})."`
	Scope   []string `sep:"none" placeholder:"SELECTOR" help:"Limit a viewer or analyst to the agents of a selector (KEY=VALUE, NAME or *) and the pairs among them, or to the pairs SOURCE:DESTINATION. Repeatable; default: everything."`
	Expires moment   `placeholder:"TIME" help:"Expiry, such as +90d; default: never, of a join token 24 hours from now."`

	NoExpiry bool     `help:"Create a join token that never expires."`
	Uses     *uint32  `placeholder:"N" help:"How many hosts may join with the token; 0: any number; default: 1."`
	Agents   string   `placeholder:"NAME" help:"Name of the only agent that may join with the token, or a pattern such as 'rack7-*'; default: any."`
	Label    []string `placeholder:"KEY=VALUE" help:"Label that agents get when they join with the token."`
	Site     string   `placeholder:"NAME" help:"Site whose agents' rows the holder of the join token may send, as the aggregator of the site; default: none."`
}

// Help has the examples.
func (tokenCreateCmd) Help() string {
	return `A viewer can read, an analyst can also run SQL, an operator can also run sessions, an admin can do
everything. Only the token is written to standard output.

A token with a scope sees the rows, agents, sessions, alarms and paths of its agents and pairs, and nothing else. It
goes by the labels that agents have now.

A join token is valid for one host and 24 hours unless --uses and --expires say otherwise; a host that
repeats its request because the answer was lost does not use it up again.

Examples:

  pillion token create dashboard --role viewer --expires +90d
  pillion token create acme --role viewer --scope customer=acme --scope customer=acme:exchange
  pillion token create north1 --role join --agents north1 --label site=north
  pillion token create paris --role join --site paris
  pillion token create rack7 --role join --uses 40 --agents 'rack7-*' --label rack=7 --expires +30d`
}

// Run makes a token.
func (c *tokenCreateCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	labels, err := parsePairs(c.Label)
	if err != nil {
		return fmt.Errorf("read labels: %w", err)
	}
	answer, err := client.Server.CreateToken(ctx, &pillionv1.CreateTokenRequest{
		Name: c.Name, Role: c.Role, Expires: c.Expires.message(), NeverExpires: c.NoExpiry,
		MaxUses: c.Uses, Agents: c.Agents, Labels: labels, Site: c.Site, Scope: c.Scope,
	})
	if err != nil {
		return failed("create token "+c.Name, err)
	}
	k := answer.GetToken()
	t := newTable("name", "role", "expires", "uses", "agents", "labels", "site", "scope", "secret")
	t.add(text(k.GetName()), text(k.GetRole()), when(k.GetExpires()), usesOf(k), text(k.GetAgents()), text(pairsText(k.GetLabels())), text(k.GetSite()), text(scopeText(k)), text(answer.Secret))
	return a.show(answer, t, func(w io.Writer) error {
		note := fmt.Sprintf("token %s with role %s", k.GetName(), k.GetRole())
		if n := k.GetMaxUses(); n != 0 {
			note += " for " + quantity.Count(int64(n), "host")
		}
		if k.GetSite() != "" {
			note += ", as the aggregator of the site " + k.GetSite()
		}
		if len(k.GetScope()) > 0 {
			note += ", limited to " + scopeText(k)
		}
		if k.GetExpires() != nil {
			note += ", valid until " + when(k.GetExpires()).shown
		}
		a.note("%s; store it now, it is not shown again:", note)
		_, err := fmt.Fprintln(w, clean(answer.Secret))
		return err
	})
}

type tokenListCmd struct{ repeated }

// Help has the example.
func (tokenListCmd) Help() string { return "Example:\n\n  pillion token list" }

// Run lists tokens.
func (c *tokenListCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	tokens, err := listTokens(ctx, client)
	if err != nil {
		return failed("list tokens", err)
	}
	t := newTable("name", "role", "state", "created", "expires", "used=LAST USED", "uses", "agents", "labels", "site", "scope")
	for _, k := range tokens {
		t.add(text(k.Name), text(k.Role), text(tokenState(k)), when(k.Created), when(k.Expires), ago(k.Used),
			usesOf(k), text(k.Agents), text(pairsText(k.Labels)), text(k.Site), text(scopeText(k)))
	}
	return a.show(messageList(tokens), t, nil)
}

// scopeText is the scope of a token; empty: it has none.
func scopeText(k *pillionv1.Token) string { return strings.Join(k.GetScope(), " ") }

func tokenState(k *pillionv1.Token) string {
	switch {
	case k.GetRevoked():
		return "revoked"
	case k.GetExpires() != nil && time.Now().After(k.Expires.AsTime()):
		return "expired"
	case k.GetMaxUses() != 0 && k.GetUses() >= k.GetMaxUses():
		return "used up"
	}
	return "ok"
}

// usesOf is a cell with how many hosts have joined with a token, and how many may.
func usesOf(k *pillionv1.Token) cell {
	switch {
	case k.GetRole() != "join":
		return text("")
	case k.GetMaxUses() == 0:
		return text(fmt.Sprintf("%d of any", k.GetUses()))
	}
	return text(fmt.Sprintf("%d of %d", k.GetUses(), k.GetMaxUses()))
}

type tokenRevokeCmd struct {
	Name string `arg:"" predictor:"token" help:"The token's name."`
}

// Help has the example.
func (tokenRevokeCmd) Help() string { return "Example:\n\n  pillion token revoke dashboard" }

// Run ends a token.
func (c *tokenRevokeCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	if _, err := client.Server.RevokeToken(ctx, &pillionv1.RevokeTokenRequest{Name: c.Name}); err != nil {
		return failed("revoke token "+c.Name, err)
	}
	return a.done("token %s revoked", c.Name)
}
