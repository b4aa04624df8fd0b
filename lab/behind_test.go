package lab_test

// agentRouter is two hosts on both sides of a router, all three with an agent.
const agentRouter = `
hosts: {a: {}, r: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [a, r]}
  - ends: [r, b]
    emulate: {seed: 9, delay: 2ms, queue: 4000, from: {r: {loss: 1%, duplicate: 0.5%}}}
  - {ends: [r, noc]}
service: {server: noc, agents: [a, r, b]}
`
