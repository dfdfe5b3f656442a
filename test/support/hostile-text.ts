import fc from 'fast-check'

/** Text that looks like a row's own structure, or that JSON spells in more than one way. Never empty. */
export const hostileText = fc.constantFrom(
  '","deployments":[{"type":"',
  '\\',
  '\\"',
  ']}',
  '}',
  '{',
  ',"ext":{',
  '☃',
  '\u2028',
  '\u007f',
  '\ud800',
  '日本',
  ' ',
)
