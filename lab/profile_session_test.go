package lab_test

// throughRouter is a path from a to b through a router that has an agent.
const throughRouter = `
hosts: {a: {}, r: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [a, r], name: a-b, emulate: {seed: 4}}
  - {ends: [r, b], emulate: {seed: 5}}
  - {ends: [noc, r]}
service: {server: noc, agents: [a, r, b]}
`
