"""The exec plugin of a kubeconfig's user: which program it is, and how a person logs in again.

Clouds let kubectl run a program of theirs, which fails every day when a session ends:

    users: [{user: {exec: {command: aws, args: [--profile, prod, eks, get-token, --cluster-name, north]}}}]
    -> log in again: aws sso login --profile prod
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

_PROFILE = re.compile(r"[A-Za-z0-9_.@/+-]{1,100}", re.ASCII)
# By the program's name: what a person types.
_LOG_IN = {
    "aws": "aws sso login",
    "aws-iam-authenticator": "aws sso login",
    "gke-gcloud-auth-plugin": "gcloud auth login",
    "gcloud": "gcloud auth login",
    "kubelogin": "az login",
    "tsh": "tsh login",
    "doctl": "doctl auth init",
    "oci": "oci session authenticate",
}
_OF_AWS = "aws sso login"


class LoginPlugin(msgspec.Struct, frozen=True):
    """An exec plugin, as the kubeconfig names it."""

    command: str
    args: tuple[str, ...] = ()
    profile: str = ""  # of the AWS command line
    install_hint: str = ""  # what the kubeconfig says about its installation

    @property
    def program(self) -> str:
        """The name of the program, without its folder."""
        return PurePath(self.command).name

    def advice(self) -> str:
        """What to do when it fails."""
        log_in = _LOG_IN.get(self.program)
        if self.program == "kubelogin" and "--login" not in self.args:  # the one for OpenID Connect
            log_in = None
        if log_in is None:
            return f"log in again: {self.program} says how when it is run by hand"
        if log_in == _OF_AWS and _PROFILE.fullmatch(self.profile):
            return f"log in again: {log_in} --profile {self.profile}"
        return f"log in again: {log_in}"

    def missing(self) -> str:
        """What to do when it is not there."""
        return self.install_hint or f"install {self.program}, or add its folder to PATH"


def login_plugin_of(
    user: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> LoginPlugin | None:
    """The exec plugin of a kubeconfig's user; None where it has none."""
    plugin = user.get("exec")
    if not isinstance(plugin, Mapping) or not isinstance(plugin.get("command"), str):
        return None
    args = tuple(str(argument) for argument in plugin.get("args") or ())
    own_environment: dict[str, str] = {}
    for variable in plugin.get("env") or ():
        own_environment[str(variable["name"])] = str(variable["value"])
    name = "AWS_PROFILE"
    profile = _value_of("--profile", args) or own_environment.get(name) or environment.get(name, "")
    hint = " ".join(str(plugin.get("installHint") or "").split())[:300]
    return LoginPlugin(plugin["command"], args, profile, hint)


def _value_of(option: str, args: Sequence[str]) -> str:
    """The value of an option, written as one word or two; empty where it is not given."""
    for place, argument in enumerate(args):
        if argument.startswith(f"{option}="):
            return argument.removeprefix(f"{option}=")
        if argument == option and place + 1 < len(args):
            return args[place + 1]
    return ""
