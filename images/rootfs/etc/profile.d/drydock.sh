# Debian's /etc/profile resets PATH, and KubeRay may start Ray through a login shell.
PATH="/opt/venv/bin:$PATH"
export PATH
