package web

import (
	"pillion.dev/api/pillionv1/pillionv1connect"
)

// role is the role of a token; each includes those before it.
type role int

const (
	anyone role = iota // no token required
	viewer
	analyst
	operator
	admin
)

var roleNames = map[role]string{anyone: "anyone", viewer: "viewer", analyst: "analyst", operator: "operator", admin: "admin"}

func (r role) String() string { return roleNames[r] }

// parseRole parses the role of a user. That of hosts, join, is not one.
func parseRole(name string) (role, bool) {
	for r, known := range roleNames {
		if r != anyone && known == name {
			return r, true
		}
	}
	return 0, false
}

// place is which server of a fleet answers a procedure.
type place int

const (
	// here is the server that is asked: it has the rows, or asks the archive.
	here place = iota
	// leading is the one that runs control: it alone changes agents, sessions, alarms and tokens, and its answers
	// include what was changed before.
	leading
)

// rule is the role that a procedure requires, and where it is answered.
type rule struct {
	role
	place
}

// roles are the rules of all procedures. Others are not served.
var roles = map[string]rule{
	pillionv1connect.AgentServiceListAgentsProcedure:    {viewer, leading},
	pillionv1connect.AgentServiceGetAgentProcedure:      {viewer, leading},
	pillionv1connect.AgentServiceSetLabelsProcedure:     {operator, leading},
	pillionv1connect.AgentServiceApproveAgentProcedure:  {operator, leading},
	pillionv1connect.AgentServiceRevokeAgentProcedure:   {admin, leading},
	pillionv1connect.AgentServiceDeleteAgentProcedure:   {admin, leading},
	pillionv1connect.AgentServiceCheckAgentProcedure:    {operator, leading},
	pillionv1connect.AgentServiceDescribeAgentProcedure: {operator, leading},

	pillionv1connect.AlarmServiceListAlarmsProcedure:       {viewer, leading},
	pillionv1connect.AlarmServiceAcknowledgeAlarmProcedure: {operator, leading},
	pillionv1connect.AlarmServiceListAlarmRulesProcedure:   {viewer, here},
	pillionv1connect.AlarmServiceListSilencesProcedure:     {viewer, leading},
	pillionv1connect.AlarmServiceCreateSilenceProcedure:    {operator, leading},
	pillionv1connect.AlarmServiceExpireSilenceProcedure:    {operator, leading},

	pillionv1connect.SessionServicePlanSessionProcedure:   {viewer, leading},
	pillionv1connect.SessionServiceCreateSessionProcedure: {operator, leading},
	pillionv1connect.SessionServiceListSessionsProcedure:  {viewer, leading},
	pillionv1connect.SessionServiceGetSessionProcedure:    {viewer, leading},
	pillionv1connect.SessionServiceChangeSessionProcedure: {operator, leading},
	pillionv1connect.SessionServicePauseSessionProcedure:  {operator, leading},
	pillionv1connect.SessionServiceResumeSessionProcedure: {operator, leading},
	pillionv1connect.SessionServiceStopSessionProcedure:   {operator, leading},
	pillionv1connect.SessionServiceDeleteSessionProcedure: {operator, leading},
	pillionv1connect.SessionServiceListRunsProcedure:      {viewer, leading},
	pillionv1connect.SessionServiceListPointsProcedure:    {viewer, leading},

	pillionv1connect.DataServiceListStreamsProcedure:  {viewer, here},
	pillionv1connect.DataServiceTailProcedure:         {viewer, here},
	pillionv1connect.DataServiceSeriesProcedure:       {viewer, here},
	pillionv1connect.DataServiceQueryProcedure:        {analyst, here},
	pillionv1connect.DataServiceListRowsProcedure:     {viewer, here},
	pillionv1connect.DataServiceExportProcedure:       {viewer, here},
	pillionv1connect.DataServiceSetRetentionProcedure: {admin, here},

	pillionv1connect.FlowServiceWindowsProcedure:      {viewer, here},
	pillionv1connect.FlowServiceWatchWindowsProcedure: {viewer, here},
	pillionv1connect.FlowServiceWatchPairsProcedure:   {viewer, here},
	pillionv1connect.FlowServiceSiteMatrixProcedure:   {viewer, here},
	pillionv1connect.FlowServiceListFlowsProcedure:    {viewer, here},
	pillionv1connect.FlowServicePairClocksProcedure:   {viewer, here},

	pillionv1connect.TopologyServiceGetTopologyProcedure:     {viewer, here},
	pillionv1connect.TopologyServiceGetPathChangeProcedure:   {viewer, here},
	pillionv1connect.TopologyServiceGetRouterDelaysProcedure: {viewer, here},
	pillionv1connect.TopologyServiceTraceProcedure:           {operator, here},

	pillionv1connect.ServerServiceHealthProcedure:      {anyone, here},
	pillionv1connect.ServerServiceBuildInfoProcedure:   {anyone, here},
	pillionv1connect.ServerServiceWhoAmIProcedure:      {viewer, here},
	pillionv1connect.ServerServiceListEventsProcedure:  {viewer, here},
	pillionv1connect.ServerServiceCreateTokenProcedure: {admin, leading},
	pillionv1connect.ServerServiceListTokensProcedure:  {admin, leading},
	pillionv1connect.ServerServiceRevokeTokenProcedure: {admin, leading},

	// Authenticated by a join token in the request, or by the client certificate.
	pillionv1connect.EnrolServiceEnrolProcedure:    {anyone, leading},
	pillionv1connect.EnrolServiceRenewProcedure:    {anyone, leading},
	pillionv1connect.EnrolServiceStandingProcedure: {anyone, leading},
}

// audited reports whether calls of a procedure are audited: those that change something
// or act on a host. Reading is not.
func audited(procedure string) bool {
	switch procedure {
	case pillionv1connect.EnrolServiceEnrolProcedure, pillionv1connect.EnrolServiceRenewProcedure:
		return true
	case pillionv1connect.ServerServiceListTokensProcedure:
		return false
	}
	return roles[procedure].role >= operator
}
