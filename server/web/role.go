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

// roles is the role that each procedure requires. Others are not served.
var roles = map[string]role{
	pillionv1connect.AgentServiceListAgentsProcedure:    viewer,
	pillionv1connect.AgentServiceGetAgentProcedure:      viewer,
	pillionv1connect.AgentServiceSetLabelsProcedure:     operator,
	pillionv1connect.AgentServiceApproveAgentProcedure:  operator,
	pillionv1connect.AgentServiceRevokeAgentProcedure:   admin,
	pillionv1connect.AgentServiceDeleteAgentProcedure:   admin,
	pillionv1connect.AgentServiceCheckAgentProcedure:    operator,
	pillionv1connect.AgentServiceDescribeAgentProcedure: operator,

	pillionv1connect.SessionServicePlanSessionProcedure:   viewer,
	pillionv1connect.SessionServiceCreateSessionProcedure: operator,
	pillionv1connect.SessionServiceListSessionsProcedure:  viewer,
	pillionv1connect.SessionServiceGetSessionProcedure:    viewer,
	pillionv1connect.SessionServiceChangeSessionProcedure: operator,
	pillionv1connect.SessionServicePauseSessionProcedure:  operator,
	pillionv1connect.SessionServiceResumeSessionProcedure: operator,
	pillionv1connect.SessionServiceStopSessionProcedure:   operator,
	pillionv1connect.SessionServiceDeleteSessionProcedure: operator,
	pillionv1connect.SessionServiceListRunsProcedure:      viewer,
	pillionv1connect.SessionServiceListPointsProcedure:    viewer,

	pillionv1connect.DataServiceListStreamsProcedure:  viewer,
	pillionv1connect.DataServiceTailProcedure:         viewer,
	pillionv1connect.DataServiceSeriesProcedure:       viewer,
	pillionv1connect.DataServiceQueryProcedure:        analyst,
	pillionv1connect.DataServiceListRowsProcedure:     viewer,
	pillionv1connect.DataServiceExportProcedure:       viewer,
	pillionv1connect.DataServiceSetRetentionProcedure: admin,

	pillionv1connect.FlowServiceWindowsProcedure:      viewer,
	pillionv1connect.FlowServiceWatchWindowsProcedure: viewer,
	pillionv1connect.FlowServiceWatchPairsProcedure:   viewer,
	pillionv1connect.FlowServiceListFlowsProcedure:    viewer,
	pillionv1connect.FlowServicePairClocksProcedure:   viewer,

	pillionv1connect.TopologyServiceGetTopologyProcedure:     viewer,
	pillionv1connect.TopologyServiceGetPathChangeProcedure:   viewer,
	pillionv1connect.TopologyServiceGetRouterDelaysProcedure: viewer,
	pillionv1connect.TopologyServiceTraceProcedure:           operator,

	pillionv1connect.ServerServiceHealthProcedure:      anyone,
	pillionv1connect.ServerServiceBuildInfoProcedure:   anyone,
	pillionv1connect.ServerServiceWhoAmIProcedure:      viewer,
	pillionv1connect.ServerServiceListEventsProcedure:  viewer,
	pillionv1connect.ServerServiceCreateTokenProcedure: admin,
	pillionv1connect.ServerServiceListTokensProcedure:  admin,
	pillionv1connect.ServerServiceRevokeTokenProcedure: admin,

	// Authenticated by a join token in the request, or by the client certificate.
	pillionv1connect.EnrolServiceEnrolProcedure:    anyone,
	pillionv1connect.EnrolServiceRenewProcedure:    anyone,
	pillionv1connect.EnrolServiceStandingProcedure: anyone,
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
	return roles[procedure] >= operator
}
