package pillion

import (
	"context"
	"fmt"
	"io"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token; its secret is shown only once."`
	List   tokenListCmd   `cmd:"" help:"List tokens, without their secrets."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token."`
}

type tokenCreateCmd struct {
	Name    string `arg:"" help:"Name of the token."`
	Role    string `default:"viewer" enum:"viewer,operator,admin,join" placeholder:"NAME" help:"Role: viewer, operator, admin, or join for hosts (${default})."`
	Expires moment `placeholder:"TIME" help:"Expiry, such as +90d; default: never."`
}

// Help has the examples.
func (tokenCreateCmd) Help() string {
	return `A viewer can read, an operator can also run sessions, an admin can do everything. Only the token is
written to standard output.

Examples:

  pillion token create dashboard --role viewer --expires +90d
  pillion token create rack7 --role join`
}

// Run makes a token.
func (c *tokenCreateCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Server.CreateToken(ctx, &pillionv1.CreateTokenRequest{Name: c.Name, Role: c.Role, Expires: c.Expires.message()})
	if err != nil {
		return failed("create token "+c.Name, err)
	}
	t := newTable("name", "role", "expires", "secret")
	t.add(text(answer.Token.GetName()), text(answer.Token.GetRole()), when(answer.Token.GetExpires()), text(answer.Secret))
	return a.show(answer, t, func(w io.Writer) error {
		a.note("token %s with role %s; store it now, it is not shown again:", answer.Token.GetName(), answer.Token.GetRole())
		_, err := fmt.Fprintln(w, clean(answer.Secret))
		return err
	})
}

type tokenListCmd struct{}

// Help has the example.
func (tokenListCmd) Help() string { return "Example:\n\n  pillion token list" }

// Run lists tokens.
func (c *tokenListCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Server.ListTokens(ctx, &pillionv1.ListTokensRequest{})
	if err != nil {
		return failed("list tokens", err)
	}
	t := newTable("name", "role", "state", "created", "expires", "used=LAST USED")
	for _, k := range answer.Tokens {
		state := "ok"
		if k.Revoked {
			state = "revoked"
		}
		t.add(text(k.Name), text(k.Role), text(state), when(k.Created), when(k.Expires), ago(k.Used))
	}
	return a.show(messageList(answer.Tokens), t, nil)
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
