package lab_test

// twoWays is a lab with asymmetric paths between a and b.
const twoWays = `
hosts: {a: {}, b: {}, noc: {}}
links:
  - {ends: [a, b], emulate: {seed: 3, delay: 1ms}}
  - {name: back, ends: [a, b], interfaces: [back, back]}
  - {ends: [a, noc]}
  - {ends: [b, noc]}
service: {server: noc, agents: [a, b]}
`
